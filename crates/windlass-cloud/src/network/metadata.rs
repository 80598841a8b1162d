//! The listening socket of a machine's metadata service. It is made inside the machine's namespace and bound to the
//! loopback link, so that whoever connects is the machine itself: a packet from a container comes in by another link
//! and is refused, and what is sent back could not cross a router.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use nix::sys::socket::sockopt::{BindToDevice, Ipv4Ttl, ReuseAddr};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket};
use thiserror::Error;

use super::namespace::{Namespace, NamespaceError};

/// Where machines find their metadata.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const PORT: u16 = 80;

/// Why there is no metadata listener.
#[derive(Debug, Error)]
pub enum MetadataError {
    /// The machine's namespace is not there or cannot be entered.
    #[error("cannot enter the machine to listen for its metadata requests")]
    Enter {
        /// Why not.
        source: NamespaceError,
    },
    /// The address is taken or not there.
    #[error("cannot listen on {METADATA}:{PORT} in {}", .path.display())]
    Listen {
        /// The machine's namespace.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Listens for the machine's own metadata requests. The socket does not block, as tokio wants it.
pub fn listen_metadata(machine: &Namespace) -> Result<TcpListener, MetadataError> {
    let listening = machine.inside(listen_here).map_err(|source| MetadataError::Enter { source })?;
    listening.map_err(|source| MetadataError::Listen { path: machine.path().to_owned(), source })
}

fn listen_here() -> io::Result<TcpListener> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    setsockopt(&socket, ReuseAddr, &true)?;
    setsockopt(&socket, BindToDevice, &OsString::from("lo"))?;
    setsockopt(&socket, Ipv4Ttl, &1)?;
    bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(METADATA, PORT)))?;
    listen(&socket, Backlog::MAXCONN)?;
    Ok(TcpListener::from(socket))
}
