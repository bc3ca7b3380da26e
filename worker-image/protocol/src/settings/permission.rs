use serde::{Deserialize, Serialize};

/// What pages may do without asking, by the name that `navigator.permissions` has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Pictures of a camera.
    Camera,
    /// To read what was copied.
    ClipboardRead,
    /// To copy without a click.
    ClipboardWrite,
    /// Where they are.
    Geolocation,
    /// Sound of a microphone.
    Microphone,
    /// To show messages outside the page.
    Notifications,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 6] = [
        Self::Camera,
        Self::ClipboardRead,
        Self::ClipboardWrite,
        Self::Geolocation,
        Self::Microphone,
        Self::Notifications,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Camera => "camera",
            Self::ClipboardRead => "clipboard-read",
            Self::ClipboardWrite => "clipboard-write",
            Self::Geolocation => "geolocation",
            Self::Microphone => "microphone",
            Self::Notifications => "notifications",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for permission in Permission::ALL {
            assert_eq!(serde_json::to_value(permission).unwrap(), permission.as_str());
        }
    }
}
