use serde::{Deserialize, Serialize};

use crate::text;

/// The longest address of a page with a challenge, in characters.
pub const MAX_CAPTCHA_URL: usize = 2000;
/// The largest picture of a challenge, in bytes of base64.
pub const MAX_CAPTCHA_IMAGE: usize = 128 << 10;

/// Who solves the challenges of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptchaSolver {
    /// A person who watches. They get the challenges that they can see, and none that ask for nothing yet.
    Person,
    /// A service that answers with tokens.
    Service,
}

/// The kind of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptchaKind {
    /// reCAPTCHA version 2, by a check box or invisible.
    RecaptchaV2,
    /// reCAPTCHA version 3, which asks for nothing and gives a score.
    RecaptchaV3,
    /// hCaptcha.
    Hcaptcha,
    /// Cloudflare Turnstile.
    Turnstile,
    /// A picture of characters to be typed.
    Image,
}

impl CaptchaKind {
    /// Its name, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RecaptchaV2 => "recaptcha_v2",
            Self::RecaptchaV3 => "recaptcha_v3",
            Self::Hcaptcha => "hcaptcha",
            Self::Turnstile => "turnstile",
            Self::Image => "image",
        }
    }
}

/// A challenge that a page puts to its visitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captcha {
    /// Its number in this worker.
    pub id: u64,
    /// Its make.
    pub kind: CaptchaKind,
    /// The address of the document that shows it.
    #[serde(deserialize_with = "text::read")]
    pub url: String,
    /// When it was found, in Unix milliseconds.
    pub since: u64,
    /// The page that it is in, as lists of pages name it.
    #[serde(default, deserialize_with = "text::read_optional", skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// What the site calls itself towards the maker of the challenge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_key: Option<String>,
    /// What the site calls the visitor's action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Whether the widget shows nothing until it asks for something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invisible: bool,
    /// The picture, as a PNG in base64, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// How a challenge ended that nobody asks about any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptchaEnd {
    /// Its number.
    pub id: u64,
    /// Whether it was solved. Otherwise its page has gone, or somebody gave it up.
    pub solved: bool,
}

/// Body of `POST /captchas/{id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum CaptchaAction {
    /// Give the page the answer.
    Answer {
        /// The token, or the characters of the picture.
        answer: String,
    },
    /// Leave it alone from now on. `solved` says whether a person has done what it asked for.
    Leave {
        /// Whether it counts as solved.
        #[serde(default)]
        solved: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_challenge_has_the_form_that_every_daemon_reads() {
        let captcha = Captcha {
            id: 1,
            kind: CaptchaKind::RecaptchaV2,
            url: "https://a.example/".to_owned(),
            since: 7,
            page: None,
            site_key: Some("k".to_owned()),
            action: None,
            invisible: false,
            image: None,
        };
        let form = json!({"id": 1, "kind": "recaptcha_v2", "url": "https://a.example/", "since": 7, "site_key": "k"});
        assert_eq!(serde_json::to_value(&captcha).unwrap(), form);
        assert_eq!(serde_json::from_value::<Captcha>(form).unwrap(), captcha);
        for kind in ["recaptcha_v2", "recaptcha_v3", "hcaptcha", "turnstile", "image"] {
            assert_eq!(serde_json::from_value::<CaptchaKind>(json!(kind)).unwrap().as_str(), kind);
        }
    }

    #[test]
    fn only_what_can_be_done_is_understood() {
        let read = |body| serde_json::from_value::<CaptchaAction>(body);
        assert_eq!(read(json!({"do": "answer", "answer": "t"})).unwrap(), CaptchaAction::Answer { answer: "t".into() });
        assert_eq!(read(json!({"do": "leave"})).unwrap(), CaptchaAction::Leave { solved: false });
        for wrong in [json!({}), json!({"do": "answer"}), json!({"do": "guess"}), json!({"do": "leave", "why": 1})] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
