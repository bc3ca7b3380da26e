//! The messages of a file of rules, as `components/url_pattern_index/proto/rules.proto` of Chromium numbers their fields.

use prost::Message;

/// Rules in one message at most: Chromium holds one message in memory at a time.
const RULES_OF_A_MESSAGE: usize = 1000;

/// What happens to a request that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Semantics {
    Unspecified = 0,
    Block = 1,
    Allow = 2,
}

/// Whose requests a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Source {
    Unspecified = 0,
    Any = 1,
    ThirdParty = 2,
    FirstParty = 3,
}

/// How a pattern is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum PatternType {
    Unspecified = 0,
    Substring = 1,
    /// With `*` or `^`.
    Wildcards = 2,
}

/// What an end of a pattern is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Anchor {
    Unspecified = 0,
    None = 1,
    /// The end of the address.
    Boundary = 2,
    /// A label of the host's name.
    Subdomain = 3,
}

/// A site whose pages a rule is for, or not for.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Domain {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(bool, tag = "2")]
    pub(crate) excluded: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Rule {
    #[prost(enumeration = "Semantics", tag = "1")]
    pub(crate) semantics: i32,
    #[prost(enumeration = "Source", tag = "2")]
    pub(crate) source: i32,
    /// Bits of [`crate::types`].
    #[prost(int32, tag = "3")]
    pub(crate) types: i32,
    /// Bits that say for which documents nothing at all is blocked.
    #[prost(int32, tag = "4")]
    pub(crate) activations: i32,
    #[prost(message, repeated, tag = "5")]
    pub(crate) domains: Vec<Domain>,
    #[prost(enumeration = "PatternType", tag = "6")]
    pub(crate) pattern_type: i32,
    #[prost(enumeration = "Anchor", tag = "7")]
    pub(crate) left: i32,
    #[prost(enumeration = "Anchor", tag = "8")]
    pub(crate) right: i32,
    #[prost(string, tag = "10")]
    pub(crate) pattern: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Rules {
    #[prost(message, repeated, tag = "1")]
    rules: Vec<Rule>,
}

/// The content of a file with these rules.
pub(crate) fn file(rules: &[Rule]) -> Vec<u8> {
    let messages = rules.chunks(RULES_OF_A_MESSAGE);
    messages.flat_map(|rules| Rules { rules: rules.to_vec() }.encode_length_delimited_to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_each_message_behind_its_length() {
        let rule = Rule { semantics: Semantics::Block.into(), pattern: "/ad/".to_owned(), ..Rule::default() };
        assert_eq!(file(std::slice::from_ref(&rule)), b"\x0a\x0a\x08\x08\x01\x52\x04/ad/");
        let mut content = &file(&vec![rule; RULES_OF_A_MESSAGE + 1])[..];
        let lengths =
            std::iter::from_fn(|| Rules::decode_length_delimited(&mut content).ok().map(|all| all.rules.len()));
        assert_eq!(lengths.take(2).collect::<Vec<_>>(), [RULES_OF_A_MESSAGE, 1]);
    }
}
