//! `gridpost completion`: what a shell needs to complete commands and flags.

use clap_complete::Shell;

use crate::{arguments, output};

/// Prints the script for `shell`.
pub fn run(shell: Shell) {
    output::text(&script(shell));
}

/// The script. It is made in memory: its maker would panic where a reader went away (`| head`).
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut arguments::command(), "gridpost", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_knows_every_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for command in arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
