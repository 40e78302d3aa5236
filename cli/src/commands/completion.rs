//! `gridpost completion`: what a shell needs to complete commands and flags.

use std::io;

use clap_complete::Shell;

use crate::arguments;

/// Prints the script for `shell`.
pub fn run(shell: Shell) {
    clap_complete::generate(shell, &mut arguments::command(), "gridpost", &mut io::stdout());
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_knows_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut arguments::command(), "gridpost", &mut script);
            let script = String::from_utf8(script).expect("text");
            for command in arguments::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
