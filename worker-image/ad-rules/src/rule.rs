//! One line of a list, as a rule of Chromium's.

use crate::message::{Anchor, Domain, PatternType, Rule, Semantics, Source};
use crate::types;

/// Nothing is blocked in a document that such an exception matches.
const WHOLE_DOCUMENT: i32 = 1;
/// Only rules for this very site hold in it.
const GENERIC_RULES: i32 = 1 << 3;
/// What makes a line a rule for elements, which the agent hides.
const OF_ELEMENTS: [&str; 4] = ["##", "#@#", "#?#", "#$#"];

/// Reads a line; none if it is no rule, or one that Chromium's filter cannot express: regular expressions, and rules that
/// change a request or a reply.
pub(crate) fn read(line: &str) -> Option<Rule> {
    let line = line.trim();
    if line.is_empty() || !line.is_ascii() || line.starts_with(['!', '[']) {
        return None;
    }
    if OF_ELEMENTS.iter().any(|sign| line.contains(sign)) {
        return None;
    }
    let (excepts, line) = line.strip_prefix("@@").map_or((false, line), |rest| (true, rest));
    let (pattern, options) = split(line);
    if pattern.len() > 1 && pattern.starts_with('/') && pattern.ends_with('/') {
        return None;
    }
    let mut rule = with_options(options, excepts)?;
    rule.semantics = if excepts { Semantics::Allow } else { Semantics::Block }.into();
    set_pattern(&mut rule, pattern);
    Some(rule)
}

/// The pattern and the options, which follow the last `$` unless that is a part of the pattern.
fn split(line: &str) -> (&str, &str) {
    let option = |text: &str| {
        let name = text.split('=').next().unwrap_or_default().trim_start_matches('~');
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    match line.rsplit_once('$') {
        Some((pattern, options)) if options.split(',').all(option) => (pattern, options),
        _ => (line, ""),
    }
}

/// A rule with these options; none if it can match no request, or says something else about it than whether it is made.
fn with_options(options: &str, excepts: bool) -> Option<Rule> {
    let mut rule = Rule { source: Source::Any.into(), ..Rule::default() };
    let (mut only, mut without, mut of_pages) = (0, 0, false);
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (excluded, name) = option.strip_prefix('~').map_or((false, option), |name| (true, name));
        match name {
            "third-party" => rule.source = if excluded { Source::FirstParty } else { Source::ThirdParty }.into(),
            "match-case" => {}
            "popup" => of_pages = true,
            "document" if excepts => rule.activations |= WHOLE_DOCUMENT,
            "genericblock" if excepts => rule.activations |= GENERIC_RULES,
            // These two are about elements.
            "document" | "elemhide" | "generichide" => of_pages = true,
            _ => match (types::bit(name), name.strip_prefix("domain=")) {
                (Some(bit), _) if excluded => without |= bit,
                (Some(bit), _) => only |= bit,
                (None, Some(names)) => rule.domains = names.split('|').map(domain).collect(),
                (None, None) => return None,
            },
        }
    }
    let names_nothing_else = only == 0 && (of_pages || rule.activations != 0);
    rule.types = match (only, names_nothing_else) {
        (_, true) => 0,
        (0, false) => types::ALL & !without,
        (only, false) => only & !without,
    };
    (rule.types != 0 || rule.activations != 0).then_some(rule)
}

fn domain(name: &str) -> Domain {
    let (excluded, name) = name.strip_prefix('~').map_or((false, name), |name| (true, name));
    Domain { name: name.to_ascii_lowercase(), excluded }
}

fn set_pattern(rule: &mut Rule, pattern: &str) {
    let (left, pattern) = match (pattern.strip_prefix("||"), pattern.strip_prefix('|')) {
        (Some(rest), _) => (Anchor::Subdomain, rest),
        (None, Some(rest)) => (Anchor::Boundary, rest),
        (None, None) => (Anchor::None, pattern),
    };
    let (right, pattern) = pattern.strip_suffix('|').map_or((Anchor::None, pattern), |rest| (Anchor::Boundary, rest));
    let pattern = if left == Anchor::None { pattern.trim_start_matches('*') } else { pattern };
    let pattern = if right == Anchor::None { pattern.trim_end_matches('*') } else { pattern };
    let wildcards = pattern.contains(['*', '^']);
    (rule.left, rule.right) = (left.into(), right.into());
    rule.pattern_type = if wildcards { PatternType::Wildcards } else { PatternType::Substring }.into();
    pattern.clone_into(&mut rule.pattern);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: i32 = 1 << 1;
    const IMAGE: i32 = 1 << 2;

    fn of(line: &str) -> Rule {
        read(line).unwrap_or_else(|| panic!("{line} is a rule"))
    }

    #[test]
    fn patterns_have_anchors_and_wildcards() {
        let parts = |line| {
            let rule = of(line);
            (rule.left(), rule.pattern_type(), rule.pattern.clone(), rule.right())
        };
        let (open, substring, wildcards) = (Anchor::None, PatternType::Substring, PatternType::Wildcards);
        assert_eq!(parts("/banner/ad_"), (open, substring, "/banner/ad_".into(), open));
        assert_eq!(parts("*/ads/*"), (open, substring, "/ads/".into(), open));
        assert_eq!(parts("||ads.example^"), (Anchor::Subdomain, wildcards, "ads.example^".into(), open));
        assert_eq!(parts("|https://a*.gif|"), (Anchor::Boundary, wildcards, "https://a*.gif".into(), Anchor::Boundary));
        assert_eq!(parts("/pay$ad.js"), (open, substring, "/pay$ad.js".into(), open));
    }

    #[test]
    fn options_limit_a_rule() {
        let rule = of("/ad.$script,image,~image,third-party,domain=a.example|~B.a.example");
        assert_eq!((rule.types, rule.source()), (SCRIPT, Source::ThirdParty));
        let domains: Vec<_> = rule.domains.iter().map(|domain| (domain.name.as_str(), domain.excluded)).collect();
        assert_eq!(domains, [("a.example", false), ("b.a.example", true)]);
        let rule = of("@@/ad.$~script,~third-party");
        assert_eq!(
            (rule.types, rule.source(), rule.semantics()),
            (types::ALL & !SCRIPT, Source::FirstParty, Semantics::Allow)
        );
        assert_eq!(of("/ad.$popup,image").types, IMAGE);
    }

    #[test]
    fn an_exception_may_be_for_whole_documents() {
        let rule = of("@@||good.example^$document");
        assert_eq!((rule.types, rule.activations), (0, WHOLE_DOCUMENT));
        let rule = of("@@||good.example^$genericblock,script");
        assert_eq!((rule.types, rule.activations), (SCRIPT, GENERIC_RULES));
    }

    #[test]
    fn what_cannot_be_expressed_is_left_out() {
        for line in [
            "",
            "! words",
            "[Adblock Plus 2.0]",
            "##.ad",
            "a.example#@#.ad",
            "/regular[0-9]expression/",
            "||x^$popup",
            "||x^$document",
            "@@||x^$generichide",
            "||x^$csp=script-src 'none'",
            "||x^$rewrite=abp-resource:blank-mp3",
            "/\u{e4}d/",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
