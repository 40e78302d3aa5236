//! The tools that a case needs besides Rust, which decide where it runs.

/// The tools that a case needs besides Rust and a C compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Runs on `gridpost dev`, and on the stack.
    Nothing,
    /// A third-party program: the case runs on both, if that program is installed.
    Program(Program),
    /// Something that only the stack has; the text says what.
    Aws(&'static str),
}

/// A third-party program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Python with Azure's SDK and others, from an environment of our own.
    Python,
    /// Node.js with Azure's SDK and others.
    Node,
    /// curl.
    Curl,
}

/// Where a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `gridpost dev`.
    Dev,
    /// The functions that Terraform has deployed onto an emulator of AWS.
    Stack,
}

impl Needs {
    /// Whether a case with these needs runs in that place, by `cargo test` (which has Rust alone) or by
    /// the complete command.
    pub fn allow(self, place: Place, is_complete: bool) -> bool {
        match (self, place) {
            (Self::Nothing, Place::Dev) => !is_complete,
            (Self::Program(_), Place::Dev) | (_, Place::Stack) => is_complete,
            (Self::Aws(_), Place::Dev) => false,
        }
    }

    /// Describes the need in a few words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing but Rust",
            Self::Program(Program::Python) => "Python, for SDKs and programs that are not ours",
            Self::Program(Program::Node) => "Node.js, for SDKs that are not ours",
            Self::Program(Program::Curl) => "curl",
            Self::Aws(what) => what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_case_runs() {
        let python = Needs::Program(Program::Python);
        let aws = Needs::Aws("queues");
        // (needs, on dev by `cargo test`, on dev by the complete command, on the stack by it)
        for (needs, alone, complete, stack) in [
            (Needs::Nothing, true, false, true),
            (python, false, true, true),
            (aws, false, false, true),
        ] {
            assert_eq!(needs.allow(Place::Dev, false), alone, "{needs:?}");
            assert_eq!(needs.allow(Place::Dev, true), complete, "{needs:?}");
            assert_eq!(needs.allow(Place::Stack, true), stack, "{needs:?}");
            assert!(!needs.allow(Place::Stack, false), "{needs:?}");
        }
    }
}
