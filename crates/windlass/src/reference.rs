//! The reference pages that come from the command line's own definition.

use clap::CommandFactory as _;

use crate::args::Arguments;
use crate::exit::Exit;

/// `docs/reference/commands.md`: every command with its help text.
pub fn commands() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         stdout is the answer, stderr is for people. With `-o json` the answer is data.\n",
    );
    let mut root = Arguments::command().term_width(100);
    root.build();
    section(&mut root, "windlass", &mut page);
    page
}

fn section(command: &mut clap::Command, name: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```\n{}\n```\n", help.join("\n").trim_end()));
    for inner in command.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        let path = format!("{name} {}", inner.get_name());
        section(inner, &path, page);
    }
}

/// `docs/reference/exit-codes.md`: what each code means.
pub fn exit_codes() -> String {
    let mut page = String::from("# Exit codes\n\n| code | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        page.push_str(&format!("| {} | {} |\n", exit.code(), exit.meaning()));
    }
    page
}
