//! The signatures of a `.crx`.

use rustls_pki_types::SubjectPublicKeyInfoDer;
use sha2::{Digest as _, Sha256};
use warmpool_protocol::extension::ExtensionError;
use warmpool_protocol::extension::crx::{Algorithm, Header, Proof};
use webpki::RawPublicKeyEntity;
use webpki::ring::{ECDSA_P256_SHA256, RSA_PKCS1_2048_8192_SHA256};

/// Bytes of the shortest RSA key that the library takes, of 2048 bits, with what stands around it.
const SHORTEST_RSA: usize = 290;

/// Checks the signatures of a header. Returns whether the developer's, by whose key the extension has its id, is good: false for a
/// key that is too short to be checked.
/// Errors: `Header` when one is wrong, or the developer's is missing.
pub(crate) fn verify(header: &Header<'_>) -> Result<bool, ExtensionError> {
    let signed = header.signed();
    let mut developers = None;
    for proof in &header.proofs {
        let is_good = is_good(proof, &signed)?;
        if Sha256::digest(proof.public_key)[..header.id.len()] == header.id {
            developers = Some(is_good);
        }
    }
    developers.ok_or_else(|| ExtensionError::Header("no key in it is that of its id".to_owned()))
}

fn is_good(proof: &Proof<'_>, signed: &[u8]) -> Result<bool, ExtensionError> {
    let wrong = |problem: &str| ExtensionError::Header(problem.to_owned());
    let algorithm = match proof.algorithm {
        Algorithm::Rsa if proof.public_key.len() < SHORTEST_RSA => return Ok(false),
        Algorithm::Rsa => RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Ecdsa => ECDSA_P256_SHA256,
    };
    let key = SubjectPublicKeyInfoDer::from(proof.public_key);
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| wrong("a key in it cannot be read"))?;
    let verified = key.verify_signature(algorithm, signed, proof.signature);
    verified.map(|()| true).map_err(|_| wrong("a signature in it is not that of the archive"))
}
