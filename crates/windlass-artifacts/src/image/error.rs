//! What can go wrong while images are made.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::ImageSet;
use crate::oci::OciError;

/// A failed attempt at making a set of images.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The caller gave no file for a program of the set.
    #[error("cannot make the images of {set}: there is no binary {program}")]
    FindProgram {
        /// The set.
        set: ImageSet,
        /// The program's name.
        program: String,
    },
    /// A program, library or file that an image takes from the machine's root is not there.
    #[error("cannot find {path} in the machine's root {}", .root.display())]
    FindInRoot {
        /// As seen from within the root.
        path: String,
        /// The root.
        root: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A library that a program names is nowhere in the root.
    #[error("cannot find the library {library}, which {program} needs, in the machine's root {}", .root.display())]
    FindLibrary {
        /// The library as it is named.
        library: String,
        /// What names it.
        program: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// A program or library could not be read as one.
    #[error("cannot read what {} needs", .path.display())]
    ReadProgram {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The layers or the archive could not be made.
    #[error("cannot write the images of {set}")]
    WriteImages {
        /// The set.
        set: ImageSet,
        /// Why.
        source: OciError,
    },
}
