//! The header of a `.crx`, by which Chromium's stores sign an extension.
//!
//! It is `Cr24`, the version 3, the length of a protocol buffer, and that buffer; the zip comes behind it. The buffer has public
//! keys, each with a signature, and the extension's id. Here its structure is read and its id. [`Header::signed`] and
//! [`Header::proofs`] are for whoever checks the signatures.

use super::ExtensionError;

/// What a `.crx` begins with.
const MAGIC: &[u8] = b"Cr24";
/// The version that there is; the second is no longer loaded anywhere.
const VERSION: u32 = 3;
/// Bytes before the buffer.
const FIXED: usize = 12;
/// The longest buffer, in bytes.
const MAX_HEADER: usize = 1 << 20;
/// The most keys of one kind.
const MAX_PROOFS: usize = 16;
/// Bytes of an id.
const ID: usize = 16;
/// What is signed begins with this.
const CONTEXT: &[u8] = b"CRX3 SignedData\0";

/// The fields of the buffer that matter here.
const WITH_RSA: u64 = 2;
const WITH_ECDSA: u64 = 3;
const SIGNED_DATA: u64 = 10_000;
/// The fields of a proof.
const PUBLIC_KEY: u64 = 1;
const SIGNATURE: u64 = 2;
/// The field of the signed data.
const CRX_ID: u64 = 1;

/// How a proof is signed; SHA-256 is the hash of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5.
    Rsa,
    /// ECDSA with the curve P-256.
    Ecdsa,
}

/// A public key and what it has signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof<'a> {
    /// How.
    pub algorithm: Algorithm,
    /// The key as an X.509 `SubjectPublicKeyInfo`.
    pub public_key: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

/// A header, and the zip behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// The keys that have signed it.
    pub proofs: Vec<Proof<'a>>,
    /// The extension's id: half of the hash of the developer's key.
    pub id: [u8; ID],
    signed_data: &'a [u8],
    /// The archive.
    pub archive: &'a [u8],
}

/// Whether a file is a `.crx`.
#[must_use]
pub fn is_crx(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

impl<'a> Header<'a> {
    /// Reads the header of a file.
    ///
    /// # Errors
    ///
    /// [`ExtensionError::Header`].
    pub fn read(file: &'a [u8]) -> Result<Self, ExtensionError> {
        let wrong = |problem: &str| ExtensionError::Header(problem.to_owned());
        let number = |at: usize| {
            let bytes = file.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes).ok_or_else(|| wrong("it is cut off"))
        };
        if !is_crx(file) {
            return Err(wrong("it does not begin with Cr24"));
        }
        let version = number(4)?;
        if version != VERSION {
            return Err(ExtensionError::Header(format!(
                "it has version {version}, and browsers load version {VERSION}"
            )));
        }
        let length = number(8)? as usize;
        if length > MAX_HEADER {
            return Err(ExtensionError::Header(format!(
                "it says that it has {length} bytes, and may have {MAX_HEADER}"
            )));
        }
        let rest = &file[FIXED..];
        let (header, archive) = rest.split_at_checked(length).ok_or_else(|| wrong("it is cut off"))?;
        let (mut proofs, mut signed_data) = (Vec::new(), None);
        for field in Fields(header) {
            match field? {
                (WITH_RSA, value) => proofs.push(proof(Algorithm::Rsa, value)?),
                (WITH_ECDSA, value) => proofs.push(proof(Algorithm::Ecdsa, value)?),
                (SIGNED_DATA, value) if signed_data.is_none() => signed_data = Some(value),
                (SIGNED_DATA, _) => return Err(wrong("it has its signed data twice")),
                _ => {}
            }
            if proofs.len() > 2 * MAX_PROOFS {
                return Err(wrong("it has too many keys"));
            }
        }
        let signed_data = signed_data.ok_or_else(|| wrong("it has no signed data"))?;
        if proofs.is_empty() {
            return Err(wrong("it has no key"));
        }
        let id = one(signed_data, CRX_ID)?.try_into().map_err(|_| wrong("it has no id"))?;
        Ok(Self { proofs, id, signed_data, archive })
    }

    /// What each of the keys has signed.
    #[must_use]
    pub fn signed(&self) -> Vec<u8> {
        let length = u32::try_from(self.signed_data.len()).unwrap_or(u32::MAX).to_le_bytes();
        [CONTEXT, &length, self.signed_data, self.archive].concat()
    }

    /// The id as Chromium writes it: letters from `a` to `p`.
    #[must_use]
    pub fn id_text(&self) -> String {
        self.id.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(b'a' + digit)).collect()
    }
}

fn proof(algorithm: Algorithm, value: &[u8]) -> Result<Proof<'_>, ExtensionError> {
    Ok(Proof { algorithm, public_key: one(value, PUBLIC_KEY)?, signature: one(value, SIGNATURE)? })
}

/// The last value of a field, which there has to be.
fn one(message: &[u8], wanted: u64) -> Result<&[u8], ExtensionError> {
    let mut found = None;
    for field in Fields(message) {
        let (number, value) = field?;
        if number == wanted {
            found = Some(value);
        }
    }
    found.ok_or_else(|| ExtensionError::Header(format!("field {wanted} of a message is missing")))
}

/// The fields of a message that are bytes. Others are passed over.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            // Of the tenth byte only one bit has room.
            if shift == 63 && byte & 0x7e != 0 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn field(&mut self) -> Option<(u64, &'a [u8])> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => self.number().map(|_| &[][..]),
            1 => self.bytes(8),
            2 => {
                let length = self.number()?;
                self.bytes(length)
            }
            5 => self.bytes(4),
            _ => None,
        };
        Some((tag >> 3, value?))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, &'a [u8]), ExtensionError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| ExtensionError::Header("it is no protocol buffer".to_owned())))
    }
}
