//! The commands: each calls one library function and prints its answer.

mod artifacts;
mod certs;
mod cloud;
mod down;
mod host;
mod image;
mod launch;
mod place;
mod plan;
mod prepare;
mod show;
mod spec;
mod up;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::args::{Arguments, Command, Output};
use crate::exit::{Exit, Failure};

/// Runs a command. Answers go to `out`, words for people to `err`.
pub fn run(arguments: &Arguments, out: &mut impl Write, err: &mut impl Write) -> Result<Exit, Failure> {
    let common = &arguments.common;
    match &arguments.command {
        Command::Spec(command) => spec::run(common, command, out, err),
        Command::Prepare(command) => prepare::run(common, command, out, err),
        Command::Plan => plan::run(common, out),
        Command::Up(command) => up::run(common, command, out, err),
        Command::Launch(flags) => launch::launch(common, flags, out, err),
        Command::Resume(flags) => launch::resume(common, flags, out, err),
        Command::Down(command) => down::run(common, command, out, err),
        Command::Status(place) => show::status(common, place, out),
        Command::Verify(place) => show::verify(common, place, out),
        Command::Why(place) => show::why(common, place, out),
        Command::Image(command) => image::run(common, command, out, err),
        Command::Certs(command) => certs::run(common, command, out),
        Command::Artifacts(command) => artifacts::run(common, command, out, err),
        Command::Cloud(command) => cloud::run(common, command, out, err),
        Command::Host(command) => host::run(common, command, out, err),
    }
}

/// Prints an answer as text or as data.
fn answer<T: Serialize>(
    form: &Output,
    out: &mut impl Write,
    data: &T,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = match form {
        Output::Text | Output::File(_) => text(),
        Output::Json => serde_json::to_string_pretty(data).expect("every answer has a JSON form") + "\n",
    };
    say(out, &text)
}

/// Writes to a stream; a reader that went away, as `head` does, is no failure.
fn say(to: &mut impl Write, text: &str) -> Result<(), Failure> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::of(Exit::Unexpected, &error, "see that the output can be written"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Says something in passing to whoever follows stderr, in the form that progress has there.
fn notice(form: &Output, err: &mut impl Write, words: &str) -> Result<(), Failure> {
    match form {
        Output::Text | Output::File(_) => say(err, &format!("{words}\n")),
        Output::Json => say(err, &format!("{}\n", serde_json::json!({ "notice": words }))),
    }
}

/// One of our other programs: they are installed side by side.
fn beside_this_program(name: &str) -> io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(this.parent().unwrap_or(Path::new("/")).join(name))
}
