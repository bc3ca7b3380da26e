//! Databases of an origin, which nobody but a browser reads.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
#[cfg(feature = "schema")]
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Wrong, wrong};

/// A database of IndexedDB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Database {
    /// Its name.
    pub name: String,
    /// Its version, from 1.
    pub version: u64,
    /// Its stores.
    pub stores: Vec<ObjectStore>,
}

/// A store of a database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectStore {
    /// Its name.
    pub name: String,
    /// Whether it makes keys by itself.
    pub auto_increment: bool,
    /// Where in a value its key is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_path: Option<String>,
    /// The same, where the key has several parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_path_array: Option<Vec<String>>,
    /// Its records.
    pub records: Vec<Entry>,
    /// Its indexes.
    pub indexes: Vec<Index>,
}

/// A record of a store. Each of its parts is plain JSON, or encoded as Playwright encodes what JSON cannot hold. Only browsers read
/// them, so they stay text: made into values, they would take many times their memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// Its key, where that is not in the value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Value>"))]
    pub key: Option<Box<RawValue>>,
    /// The key, encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Value>"))]
    pub key_encoded: Option<Box<RawValue>>,
    /// Its value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Value>"))]
    pub value: Option<Box<RawValue>>,
    /// The value, encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Value>"))]
    pub value_encoded: Option<Box<RawValue>>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        fn parts(entry: &Entry) -> [Option<&str>; 4] {
            let Entry { key, key_encoded, value, value_encoded } = entry;
            [key, key_encoded, value, value_encoded].map(|part| part.as_deref().map(RawValue::get))
        }
        parts(self) == parts(other)
    }
}

/// A member that is there, though it may be null: null is a value that a page may store.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

/// An index of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Where in a value its key is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_path: Option<String>,
    /// The same, where the key has several parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_path_array: Option<Vec<String>>,
    /// Whether a key that is a list stands for each of its parts.
    pub multi_entry: bool,
    /// Whether no two records have the same key.
    pub unique: bool,
}

impl Database {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        if self.version == 0 {
            return wrong("version", "must be 1 or more");
        }
        let mut names = HashSet::new();
        for (at, store) in self.stores.iter().enumerate() {
            let place = format!("stores[{at}]");
            if !names.insert(&store.name) {
                return wrong(format!("{place}.name"), "is there twice: write each name once");
            }
            let has_path = store.key_path.is_some() || store.key_path_array.is_some();
            for (number, record) in store.records.iter().enumerate() {
                let has_key = record.key.is_some() || record.key_encoded.is_some();
                let place = format!("{place}.records[{number}]");
                if record.value.is_none() == record.value_encoded.is_none() {
                    return wrong(place, "must have either value or valueEncoded");
                }
                if has_key == has_path {
                    let reason = if has_path { "must have no key, which is in its value" } else { "must have a key" };
                    return wrong(place, reason);
                }
            }
        }
        Ok(())
    }
}
