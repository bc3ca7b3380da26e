// Authorities that the browser trusts beside the public ones.

/** Only sites: what signs mail says nothing about them. */
const SITES = "C,,";

/** Adds certificates, DER in Base64, to those of this profile. */
export function trustAuthorities({ certificates }) {
  const known = Cc["@mozilla.org/security/x509certdb;1"].getService(Ci.nsIX509CertDB);
  for (const certificate of certificates) known.addCertFromBase64(certificate, SITES);
}
