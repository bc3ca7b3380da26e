//! Which addresses clients and viewers may open.

use url::Url;

/// The longest page address, in bytes: a record must fit into the store.
const MAX_URL: usize = 16 << 10;

/// A page's normalised address: only addresses that a client could open by itself, and none inside the container.
/// Errors: what is wrong with it, as a predicate for a message.
pub fn page_address(text: &str) -> Result<String, String> {
    match Url::parse(text) {
        // As it is kept: other letters than those of ASCII take three times as much.
        Ok(url) if url.as_str().len() > MAX_URL => Err(format!("has more than {MAX_URL} bytes as browsers write it")),
        Ok(url) if matches!(url.scheme(), "http" | "https" | "data") || url.as_str() == "about:blank" => Ok(url.into()),
        Ok(_) => Err("must be http, https or data, or about:blank".to_owned()),
        Err(error) => Err(format!("is not a URL: {error}")),
    }
}
