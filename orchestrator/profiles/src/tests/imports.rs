//! Profile folders that clients send.

use super::*;

/// A folder that never comes: it says that it is waited for.
struct SilentReader(Option<mpsc::Sender<()>>);

impl AsyncRead for SilentReader {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(waited_for) = self.0.take() {
            let _ = waited_for.try_send(());
        }
        Poll::Pending
    }
}

/// The limits of a service where a folder has this long to arrive.
fn within(import_timeout: Duration) -> warmpool_config::ProfileSettings {
    let settings = limits(&[("MAX_IMPORTS", "2"), ("MAX_IMPORTS_PER_KEY", "1")]);
    warmpool_config::ProfileSettings { import_timeout, ..settings }
}

#[test]
fn slow_folders_leave_threads_for_files() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(3).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = async {
        let profiles = Profiles::none(within(Duration::from_secs(3600)), folder.path(), Store::memory());
        let (sender, mut waited_for) = mpsc::channel(9);
        for number in 0..9 {
            let (profiles, from) = (profiles.clone(), SilentReader(Some(sender.clone())));
            let owner = format!("00000000000{}", number % 3).parse().unwrap();
            tokio::spawn(async move { profiles.put_folder(&owner, &format!("slow-{number}"), from).await });
        }
        for _ in 0..2 {
            waited_for.recv().await.unwrap();
        }
        for number in 0..100 {
            let path = folder.path().join(format!("file-{number}"));
            tokio::fs::write(&path, b"tea").await.unwrap();
            assert_eq!(tokio::fs::read(&path).await.unwrap(), b"tea");
        }
        assert!(waited_for.try_recv().is_err(), "another one was begun");
    };
    let in_time = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await });
    runtime.shutdown_background();
    in_time.expect("slow folders held every thread");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_too_slow_is_given_up_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = Profiles::none(within(Duration::from_millis(10)), folder.path(), Store::memory());
    // In turn for one key, and so the second may not even begin.
    let two = ["one", "two"].map(|name| {
        let profiles = profiles.clone();
        async move { profiles.put_folder(&owner(), name, SilentReader(None)).await }
    });
    for put in futures_util::future::join_all(two).await {
        let error = put.unwrap_err();
        assert!(matches!(error, Error::ImportTimeout { .. }), "{error}");
    }
    assert!(profiles.list(|_| true).is_empty());
}
