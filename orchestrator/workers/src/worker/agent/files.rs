//! The session's files in a worker.

use http::Method;
use warmpool_protocol::{File, Rename, StoredFile, is_plain_file_name};

use super::super::idle::{Content, unless_silent, watched};
use super::{ASK_TIMEOUT, Agent, AgentError, Body, collect, full, read, within};

impl Agent {
    /// Lists the files that the session uploaded or downloaded. Each has a plain name, which may be unpacked anywhere.
    pub async fn files(&self) -> Result<Vec<File>, AgentError> {
        let mut files: Vec<File> = self.ask("/files").await?;
        files.retain(|file| is_plain_file_name(&file.name));
        Ok(files)
    }

    /// The content of a file, as a stream. Fails with `Refused` and 404 when there is no such file.
    /// Where a download and an upload have the name, it is the download's.
    pub async fn read_file(&self, name: &str) -> Result<Content, AgentError> {
        self.content(&file_path(name)).await
    }

    /// The content of what was stored for upload, also where a download has its name. Fails with `Refused` and 404 when there is no
    /// such upload, and where the agent is of a release that cannot tell them apart.
    pub async fn read_upload(&self, name: &str) -> Result<Content, AgentError> {
        self.content(&path_below("uploads", name)).await
    }

    async fn content(&self, path: &str) -> Result<Content, AgentError> {
        let response = within(ASK_TIMEOUT, self.succeed(Method::GET, path, full(""))).await?;
        Ok(unless_silent(response.into_body(), ASK_TIMEOUT))
    }

    /// Puts a file where pages can upload it from.
    pub async fn store_file(&self, name: &str, content: Body) -> Result<StoredFile, AgentError> {
        self.store(Method::PUT, &file_path(name), content).await
    }

    /// Puts the one file of a zip there.
    pub async fn store_zip(&self, zip: Body) -> Result<StoredFile, AgentError> {
        self.store(Method::POST, "/files/archive", zip).await
    }

    async fn store(&self, method: Method, path: &str, content: Body) -> Result<StoredFile, AgentError> {
        let (content, silence) = watched(content, ASK_TIMEOUT);
        let stored = async { collect(self.succeed(method, path, content).await?).await };
        tokio::select! {
            stored = stored => read(&stored?),
            () = silence => Err(AgentError::Timeout(ASK_TIMEOUT)),
        }
    }

    /// Removes a file. Fails with `Refused` and 404 when there is no such file.
    pub async fn remove_file(&self, name: &str) -> Result<(), AgentError> {
        within(ASK_TIMEOUT, self.succeed(Method::DELETE, &file_path(name), full(""))).await.map(drop)
    }

    /// Gives what was stored for upload another name, in place of an upload that has it. Fails with `Refused`: 400 for a name that
    /// files do not have, 404 when there is no such upload.
    pub async fn rename_upload(&self, from: &str, to: &str) -> Result<StoredFile, AgentError> {
        let rename = Rename { name: to.to_owned() };
        read(&self.call(Method::POST, &path_below("uploads", from), Some(&rename)).await?)
    }

    /// Removes what was stored for upload, and no download of that name. Fails with `Refused` and 404 when there is none.
    pub async fn remove_upload(&self, name: &str) -> Result<(), AgentError> {
        self.call(Method::DELETE, &path_below("uploads", name), None::<&()>).await.map(drop)
    }
}

/// The agent's path of a file: its name as one segment.
fn file_path(name: &str) -> String {
    path_below("files", name)
}

fn path_below(folder: &str, name: &str) -> String {
    // Two names of dots alone mean a folder to some readers of paths.
    if matches!(name, "." | "..") {
        return format!("/{folder}/{}", name.replace('.', "%2E"));
    }
    format!("/{folder}/{}", warmpool_core::address::path_segment(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(file_path("a b/../c.txt"), "/files/a%20b%2F..%2Fc.txt");
        assert_eq!(file_path("é"), "/files/%C3%A9");
        assert_eq!(file_path(".."), "/files/%2E%2E");
    }
}
