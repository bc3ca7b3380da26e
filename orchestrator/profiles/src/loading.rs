//! What an earlier process has left: records that are read, and files that are matched with them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::files::FOLDER;
use crate::record::Record;
use crate::table::Entry;
use crate::writer::QualifiedName;
use crate::{Error, Profiles};
use warmpool_core::cipher::Cipher;
use warmpool_store::{Kept, Table, Unowned};

impl Profiles {
    /// Reads all profiles, and puts in order what an earlier process has left.
    /// Errors: when the store or the files cannot be read.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        let mut are_all_known = true;
        let mut pages = self.0.store.pages(Table::Profiles);
        while let Some(rows) = pages.next().await? {
            for row in &rows {
                let record: Record = match serde_json::from_slice(&row.value) {
                    Ok(record) => record,
                    Err(error) => {
                        let name = String::from_utf8_lossy(&row.key);
                        tracing::error!(%name, %error, "the record of a profile cannot be read; it is left out");
                        are_all_known = false;
                        QualifiedName::from_store_key(&row.key).into_iter().for_each(|name| self.leave_out(name, None));
                        continue;
                    }
                };
                let key = self.0.store.get(Table::ProfileKeys, record.id.as_str().as_bytes()).await?;
                let own = key.and_then(|key| self.0.instance.open(key).ok()?.try_into().ok());
                let qualified_name = QualifiedName::new(&record.owner, &record.name);
                // A backup that was restored without the file of keys has profiles that nobody can read any more.
                let Some(own) = own else {
                    tracing::warn!(profile = %record.name, key = %record.owner, "the key of a profile is gone; it is left out");
                    self.leave_out(qualified_name, Some(record.id));
                    continue;
                };
                let (record, change) = (Mutex::new(record), tokio::sync::Mutex::default());
                let entry = Entry { cipher: Cipher::new(&own), record, change };
                self.0.entries.lock().insert(qualified_name, Arc::new(entry));
            }
        }
        let unowned = self.0.store.unowned(&FOLDER, Table::ProfileKeys).await?;
        self.tidy(are_all_known, unowned).await;
        Ok(())
    }

    /// Puts files and records in order: finds versions that only the files have, and removes what no record names.
    async fn tidy(&self, are_all_known: bool, unowned: Unowned) {
        let entries: Vec<Arc<Entry>> = self.0.entries.lock().values().cloned().collect();
        let mut kept: HashMap<String, Kept> = self.left_out_ids().map(|id| (id.to_string(), Kept::All)).collect();
        for entry in entries {
            let matched = self.match_files(&entry).await;
            let record = entry.record.lock();
            let files = match matched {
                Ok(()) => Kept::Files(record.versions.iter().map(|version| version.file.clone()).collect()),
                Err(error) => {
                    tracing::error!(profile = %record.name, key = %record.owner, %error, "a profile was not matched with its files; all of them stay");
                    Kept::All
                }
            };
            kept.insert(record.id.to_string(), files);
        }
        if !are_all_known {
            tracing::warn!(
                "no files of profiles are removed: whose they are is not known while a record cannot be read"
            );
            return;
        }
        self.0.files.keep_only(unowned, move |profile| kept.get(profile).cloned().unwrap_or(Kept::Nothing)).await;
    }
}
