//! Certificates of authorities that browsers trust beside the public ones: `egress.ca_certificates`, also of presets and keys.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use warmpool_core::browser::TrustId;
use warmpool_core::tls;
use warmpool_protocol::CERTIFICATES_LIMIT;

use super::Config;
use super::value::{InvalidValue, TomlForm, Value, quoted, text_value};

const REMEDY: &str = "name a file of certificates in PEM form by its absolute path, such as /etc/ssl/corporate-ca.pem, or write the \
                      certificates themselves";
/// The most text that certificates of a key may have, in bytes: it is kept in the key's record.
const KEY_LIMIT: usize = 48 << 10;
/// How a certificate in PEM form begins.
const PEM: &str = "-----BEGIN";

/// The certificates of one file, or of one text in PEM form.
///
/// A file is read when this is made. What is wrong with it is kept for [`CaCertificates::check`], so that settings can be looked at
/// where their files are not.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaCertificates {
    source: String,
    certificates: Vec<Vec<u8>>,
    problem: Option<String>,
}

impl CaCertificates {
    /// Whether the certificates were there.
    /// Errors: what is wrong with the file, by its name.
    fn check(&self) -> Result<(), String> {
        self.problem.clone().map_or(Ok(()), Err)
    }
}

/// How many certificates the settings name: the daemon's and those of presets.
/// Errors: the first file that has none, or cannot be read; that they are too many for a browser's start.
pub fn check_ca_certificates(config: &Config) -> Result<usize, String> {
    let of_presets = config.pool.presets.0.iter().map(|preset| &preset.egress);
    let of_presets = of_presets.map(|egress| egress.ca_certificates.as_slice());
    std::iter::once(config.egress.ca_certificates.as_slice()).chain(of_presets).try_fold(0, |count, sources| {
        sources.iter().try_for_each(CaCertificates::check)?;
        check_size(sources)?;
        Ok(count + sources.iter().map(|source| source.certificates.len()).sum::<usize>())
    })
}

/// Refuses more certificates than a key may have.
/// Errors: how much there may be.
pub fn check_certificates_of_key(sources: &[CaCertificates]) -> Result<(), String> {
    at_most(sources.iter().map(|source| source.source.len()).sum(), KEY_LIMIT)
}

/// Refuses more than a worker's claim has room for.
fn check_size(sources: &[CaCertificates]) -> Result<(), String> {
    at_most(sources.iter().flat_map(|source| &source.certificates).map(Vec::len).sum(), CERTIFICATES_LIMIT)
}

fn at_most(bytes: usize, most: usize) -> Result<(), String> {
    if bytes <= most {
        return Ok(());
    }
    let (bytes, most) = (bytes.div_ceil(1024), most / 1024);
    Err(format!("{bytes} KiB of certificates are too many: name {most} KiB at most"))
}

fn parse(text: &str) -> Result<Vec<Vec<u8>>, String> {
    tls::ca_certificates(text.as_bytes()).map_err(|error| error.to_string())
}

impl FromStr for CaCertificates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let source = text.trim().to_owned();
        if source.contains(PEM) {
            return Ok(Self { certificates: parse(&source)?, source, problem: None });
        }
        if !Path::new(&source).is_absolute() {
            return Err(format!("{source:?} is neither an absolute path nor a certificate"));
        }
        let read = fs::read_to_string(&source).map_err(|error| error.to_string()).and_then(|text| parse(&text));
        Ok(match read {
            Ok(certificates) => Self { source, certificates, problem: None },
            Err(error) => Self { problem: Some(format!("{source}: {error}")), source, certificates: Vec::new() },
        })
    }
}

impl TryFrom<String> for CaCertificates {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CaCertificates> for String {
    fn from(certificates: CaCertificates) -> Self {
        certificates.source
    }
}

impl fmt::Display for CaCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl fmt::Debug for CaCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaCertificates({})", self.certificates.len())
    }
}

text_value!(CaCertificates, "FILE", |text| text.parse().map_err(|what: String| InvalidValue::new(what, REMEDY)));

/// Authorities that a browser trusts beside the public ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust(BTreeSet<Vec<u8>>);

impl Trust {
    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Whether `other` has all of these.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Its name; none where there is no authority.
    #[must_use]
    pub fn id(&self) -> Option<TrustId> {
        (!self.0.is_empty()).then(|| TrustId::from_certificates(self.0.iter().map(Vec::as_slice)))
    }

    /// The certificates, in DER.
    pub fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl From<&[CaCertificates]> for Trust {
    fn from(sources: &[CaCertificates]) -> Self {
        Self(sources.iter().flat_map(|source| source.certificates.iter().cloned()).collect())
    }
}

#[cfg(any(test, feature = "testing"))]
impl Trust {
    /// Authorities with these texts for certificates.
    #[must_use]
    pub fn of_texts(certificates: &[&str]) -> Self {
        Self(certificates.iter().map(|text| text.as_bytes().to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_protocol::CLAIM_LIMIT;

    fn authority(name: &str) -> String {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn a_file_and_a_text_are_the_same_authorities() {
        let (one, two) = (authority("one"), authority("two"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("both.pem");
        fs::write(&path, format!("{one}{two}")).unwrap();
        let file: CaCertificates = path.to_str().unwrap().parse().unwrap();
        let texts: Vec<CaCertificates> = vec![two.parse().unwrap(), one.parse().unwrap()];
        let (of_file, of_texts) = (Trust::from([file.clone()].as_slice()), Trust::from(texts.as_slice()));
        assert_eq!(of_file, of_texts);
        assert_eq!(of_file.id(), of_texts.id());
        assert_eq!(of_file.certificates().count(), 2);
        assert_ne!(Trust::from(&texts[..1]).id(), of_texts.id());
        assert_eq!(Trust::from(&texts[..1]).and(Trust::from(&texts[1..])), of_texts);
        assert_eq!(Trust::default().id(), None);
        assert!(Trust::default().is_within(&Trust::default()) && Trust::from(&texts[..1]).is_within(&of_texts));
        assert!(!of_texts.is_within(&Trust::from(&texts[..1])));
        assert_eq!(serde_json::to_string(&file).unwrap(), serde_json::to_string(&path).unwrap());
    }

    #[test]
    fn more_than_a_claim_has_room_for_is_refused() {
        let of_size =
            |bytes| CaCertificates { source: String::new(), certificates: vec![vec![0; bytes]; 2], problem: None };
        assert_eq!(check_size(&[of_size(CERTIFICATES_LIMIT / 2)]), Ok(()));
        let error = check_size(&[of_size(CERTIFICATES_LIMIT / 2), of_size(1)]).unwrap_err();
        assert!(error.contains("385 KiB of certificates are too many"), "{error}");
        // Of the daemon, a preset and a key, in Base64.
        const { assert!(CERTIFICATES_LIMIT * 3 / 3 * 4 < CLAIM_LIMIT) };
    }

    #[test]
    fn what_is_no_certificate_is_refused_by_name() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        for (text, part) in
            [("relative.pem", "neither an absolute path"), (broken, "certificate 1"), (key.as_str(), "no certificate")]
        {
            let error = text.parse::<CaCertificates>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("none.pem", None), ("key.pem", Some(&key))] {
            let path = folder.path().join(name);
            if let Some(text) = text {
                fs::write(&path, text).unwrap();
            }
            let missing: CaCertificates = path.to_str().unwrap().parse().unwrap();
            assert!(missing.check().unwrap_err().contains(name));
        }
    }
}
