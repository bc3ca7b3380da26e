//! Settings that are an array of tables, each with a name. A variable or a flag takes the same as an array of inline tables.

use serde::{Deserialize as _, Serialize, de::DeserializeOwned};
use warmpool_core::error::FieldError;

use super::value::InvalidValue;

/// A table in an array of tables, which has a name.
pub(super) trait NamedTable: Sized {
    /// What each is called in messages: an upstream, a preset.
    const KIND: &'static str;
    /// How to write the array.
    const REMEDY: &'static str;
    /// Whether a table may hold secrets, so that no message shows it.
    const SECRET: bool;
    /// The table in TOML.
    type Table: DeserializeOwned;

    /// Its name, which no other has.
    fn name(&self) -> &str;

    /// Checks a table. `misfit` makes the message of the field at fault.
    fn check(table: Self::Table, misfit: &dyn Fn(FieldError) -> InvalidValue) -> Result<Self, InvalidValue>;
}

/// Reads an array of tables. A fault is reported with the name of its table, since there may be several.
pub(super) fn named_tables<T: NamedTable>(text: &str) -> Result<Vec<T>, InvalidValue> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let read = toml::de::ValueDeserializer::parse(text).and_then(Vec::<toml::Value>::deserialize);
    let read = read.map_err(|_| match T::SECRET {
        true => InvalidValue::new("is not an array of TOML tables", T::REMEDY),
        false => InvalidValue::not(text, "an array of TOML tables", T::REMEDY),
    });
    let mut tables: Vec<T> = Vec::new();
    for (index, table) in read?.into_iter().enumerate() {
        if !T::SECRET && !table.is_table() {
            return Err(InvalidValue::not(&table.to_string(), "a table", T::REMEDY));
        }
        let name = table.get("name").and_then(toml::Value::as_str);
        let label = name.map_or_else(|| format!("{} {}", T::KIND, index + 1), |name| format!("{name:?}"));
        let misfit = |error: FieldError| InvalidValue::new(format!("{label}: {error}"), T::REMEDY);
        let table = serde_path_to_error::deserialize(table).map_err(|error| {
            let path = error.path().to_string();
            misfit(FieldError::from_serde(&path, error.into_inner().message()))
        })?;
        let table = T::check(table, &misfit)?;
        if tables.iter().any(|other| other.name() == table.name()) {
            let what = format!("{:?} is there twice", table.name());
            return Err(InvalidValue::new(what, format!("give each {} its own name", T::KIND)));
        }
        tables.push(table);
    }
    Ok(tables)
}

/// Checks the name of a table.
pub(super) fn check_name(name: &str) -> Result<(), FieldError> {
    const MAX: usize = 32;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    match (1..=MAX).contains(&name.len()) && name.bytes().all(plain) {
        true => Ok(()),
        false => Err(FieldError::invalid("name", format!("must be 1 to {MAX} small letters, digits, - or _"))),
    }
}

/// Writes tables as TOML.
pub(super) fn tables_toml<T: Serialize>(tables: impl Iterator<Item = T>) -> Option<String> {
    let tables = tables.map(|table| toml::Value::try_from(table).ok());
    Some(toml::Value::Array(tables.collect::<Option<_>>()?).to_string())
}
