//! What a task does, and how far it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! names {
    ($(#[$doc:meta])* $name:ident in $title:literal { $($(#[$about:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[schemars(rename = $title)]
        pub enum $name { $($(#[$about])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// All of them, by name.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in JSON and in queries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                Self::ALL.into_iter().find(|one| one.as_str() == text).ok_or(())
            }
        }
    };
}

// In the order of their names, which is the order of lists that are sorted by them.
names! {
    /// What a task does.
    Kind in "TaskType" {
        /// Reads pages.
        Extract = "extract",
        /// Does one of the others for many inputs.
        Fleet = "fleet",
        /// Plays a recording.
        Run = "run",
    }
}

names! {
    /// How a task, or one item of a fleet, is.
    Status in "TaskStatus" {
        /// Ended by request.
        Cancelled = "cancelled",
        /// Ended without its result.
        Failure = "failure",
        /// Accepted; waits for its turn.
        Queued = "queued",
        /// Being carried out.
        Running = "running",
        /// Ended with its result.
        Success = "success",
    }
}

impl Status {
    /// Whether nothing more will happen to it.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Cancelled | Self::Failure | Self::Success)
    }
}
