use std::fs;
use std::path::PathBuf;

use super::server::{Answer, Server};
use super::*;
use crate::digest::Algorithm;

struct Bench {
    server: Server,
    cache: Cache,
    dir: tempfile::TempDir,
    content: Vec<u8>,
}

const FILE: &str = "/file";

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path().join("cache")).unwrap();
        let content = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
        Bench { server: Server::start().await, cache, dir, content }
    }

    fn place(&self) -> PathBuf {
        self.dir.path().join("result")
    }

    async fn fetch(&self) -> Result<(), DownloadError> {
        let limits = Limits { size: 20_000, stall: Duration::from_millis(400) };
        let downloader = Downloader::new(limits).unwrap();
        let want = Digest::of(Algorithm::Sha512, &self.content);
        downloader.file(&self.cache, &self.server.url(FILE), &want, &self.place(), |_, _| ()).await
    }

    fn kept(&self) -> u64 {
        let parts = fs::read_dir(self.cache.root().join("tmp/partial")).unwrap().map(|e| e.unwrap());
        parts.filter(|e| e.path().extension().is_some_and(|x| x == "part")).map(|e| e.metadata().unwrap().len()).sum()
    }

    /// The file is there and right, and nothing else is left.
    fn assert_complete(&self) {
        assert_eq!(fs::read(self.place()).unwrap(), self.content);
        assert_eq!(fs::read_dir(self.cache.root().join("tmp/partial")).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn a_good_file_arrives_with_progress() {
    let bench = Bench::new().await;
    bench.server.put(FILE, Answer::File(bench.content.clone()));
    let seen = std::cell::RefCell::new(Vec::new());
    let downloader = Downloader::new(Limits::default()).unwrap();
    let want = Digest::of(Algorithm::Sha256, &bench.content);
    let note = |got, total| seen.borrow_mut().push((got, total));
    downloader.file(&bench.cache, &bench.server.url(FILE), &want, &bench.place(), note).await.unwrap();
    bench.assert_complete();
    assert_eq!(*seen.borrow().last().unwrap(), (10_000, Some(10_000)));
}

#[tokio::test]
async fn a_tampered_file_is_not_trusted_and_nothing_of_it_stays() {
    let bench = Bench::new().await;
    let mut tampered = bench.content.clone();
    tampered[5000] ^= 1;
    bench.server.put(FILE, Answer::File(tampered));
    let error = bench.fetch().await.unwrap_err();
    assert!(matches!(error, DownloadError::WrongDigest { .. }) && error.is_trust(), "{error}");
    assert!(!bench.place().exists());
    assert_eq!(bench.kept(), 0);
}

#[tokio::test]
async fn a_download_that_is_cut_off_goes_on_where_it_ended() {
    let bench = Bench::new().await;
    bench.server.put_tagged(FILE, Answer::Cut { content: bench.content.clone(), after: 3000 }, "\"v1\"");
    bench.fetch().await.unwrap();
    bench.assert_complete();
    let asked = ["GET /file", "GET /file bytes=3000-", "GET /file bytes=6000-", "GET /file bytes=9000-"];
    assert_eq!(bench.server.requests(), asked);
}

#[tokio::test]
async fn a_download_that_is_cut_off_again_and_again_is_taken_up_by_the_next_run() {
    let bench = Bench::new().await;
    bench.server.put(FILE, Answer::Cut { content: bench.content.clone(), after: 1500 });
    let error = bench.fetch().await.unwrap_err();
    assert!(matches!(error, DownloadError::Cut { got: 6000, want: Some(10_000), .. }) && !error.is_trust(), "{error}");
    assert!(error.hint().unwrap().contains("goes on where it ended"));
    assert_eq!(bench.kept(), 6000);
    assert!(!bench.place().exists());
    bench.fetch().await.unwrap();
    bench.assert_complete();
}

#[tokio::test]
async fn a_truncated_file_without_progress_is_an_error_at_once() {
    let bench = Bench::new().await;
    bench.server.put(FILE, Answer::Cut { content: bench.content.clone(), after: 0 });
    let error = bench.fetch().await.unwrap_err();
    assert!(matches!(error, DownloadError::Cut { got: 0, .. }), "{error}");
    assert_eq!(bench.server.requests().len(), 1);
}

#[tokio::test]
async fn a_server_that_stalls_is_named_and_what_came_is_kept() {
    let bench = Bench::new().await;
    bench.server.put(FILE, Answer::Stall { content: bench.content.clone(), after: 2500 });
    let error = bench.fetch().await.unwrap_err();
    assert!(error.to_string().ends_with("/file stalled: no byte for 0.4 s after 2500 bytes"), "{error}");
    assert!(!error.is_trust());
    assert_eq!(bench.kept(), 2500);
    bench.server.put(FILE, Answer::File(bench.content.clone()));
    bench.fetch().await.unwrap();
    bench.assert_complete();
}

#[tokio::test]
async fn more_than_a_file_can_have_is_refused_announced_or_not() {
    for answer in [Answer::Endless, Answer::Boast(20_001), Answer::Boast(u64::MAX / 2)] {
        let bench = Bench::new().await;
        bench.server.put(FILE, answer);
        let error = bench.fetch().await.unwrap_err();
        assert!(matches!(error, DownloadError::TooLarge { limit: 20_000, .. }) && error.is_trust(), "{error}");
        assert_eq!(bench.kept(), 0);
    }
}

#[tokio::test]
async fn redirects_are_followed_but_not_for_ever() {
    let bench = Bench::new().await;
    bench.server.put(FILE, Answer::Redirect("/elsewhere".into()));
    bench.server.put("/elsewhere", Answer::File(bench.content.clone()));
    bench.fetch().await.unwrap();
    bench.assert_complete();
    bench.server.put("/elsewhere", Answer::Redirect("/file".into()));
    let error = bench.fetch().await.unwrap_err();
    assert!(matches!(&error, DownloadError::Redirect { refused: Refused::TooMany { .. }, .. }), "{error}");
    assert!(error.is_trust());
}

#[tokio::test]
async fn a_redirect_to_another_server_is_followed_only_where_that_is_wanted() {
    let (bench, other) = (Bench::new().await, Server::start().await);
    other.put("/elsewhere", Answer::File(b"hello".to_vec()));
    bench.server.put(FILE, Answer::Redirect(other.url("/elsewhere").to_string()));
    let url = bench.server.url(FILE);
    assert_eq!(Downloader::new(Limits::default()).unwrap().bytes(&url, 5).await.unwrap(), b"hello");
    let home = Downloader::following(Redirects::WithinOrigin, Limits::default()).unwrap();
    let error = home.bytes(&url, 5).await.unwrap_err();
    assert!(matches!(&error, DownloadError::Redirect { refused: Refused::OtherOrigin { .. }, .. }), "{error}");
    assert!(error.is_trust());
    assert_eq!(other.requests().len(), 1, "the other server has not heard of the second download");
    bench.server.put(FILE, Answer::Redirect("/here".to_owned()));
    bench.server.put("/here", Answer::File(b"hello".to_vec()));
    assert_eq!(home.bytes(&url, 5).await.unwrap(), b"hello");
}

#[tokio::test]
async fn other_answers_are_told_apart() {
    let bench = Bench::new().await;
    let error = bench.fetch().await.unwrap_err();
    assert!(error.is_absent() && !error.is_trust(), "{error}");
    bench.server.put(FILE, Answer::Status(503));
    let error = bench.fetch().await.unwrap_err();
    assert!(matches!(error, DownloadError::Status { status: 503, .. }), "{error}");
    let nobody: Url = "http://127.0.0.1:1/file".parse().unwrap();
    let downloader = Downloader::new(Limits::default()).unwrap();
    let error = downloader.probe(&nobody, Duration::from_secs(3)).await.unwrap_err();
    assert!(matches!(error, DownloadError::Request { .. }) && !error.is_trust(), "{error}");
}

#[tokio::test]
async fn a_file_that_changed_between_two_runs_is_downloaded_anew() {
    // With a tag the server sees it; without one only the digest does.
    for tags in [Some(("\"old\"", "\"new\"")), None] {
        let bench = Bench::new().await;
        let old = Answer::Stall { content: vec![7; 10_000], after: 4000 };
        let new = Answer::File(bench.content.clone());
        match tags {
            Some((tag, _)) => bench.server.put_tagged(FILE, old, tag),
            None => bench.server.put(FILE, old),
        }
        bench.fetch().await.unwrap_err();
        assert_eq!(bench.kept(), 4000);
        match tags {
            Some((_, tag)) => bench.server.put_tagged(FILE, new, tag),
            None => bench.server.put(FILE, new),
        }
        bench.fetch().await.unwrap();
        bench.assert_complete();
    }
}

#[tokio::test]
async fn a_whole_file_that_a_killed_run_left_needs_no_second_download() {
    let bench = Bench::new().await;
    bench.server.put(FILE, Answer::Stall { content: bench.content.clone(), after: 10_000 });
    // The last byte is here; a kill comes before the file gets its name.
    let mut partial =
        Partial::open(&bench.cache, &bench.server.url(FILE), &Digest::of(Algorithm::Sha512, &bench.content)).unwrap();
    partial.push(&bench.content).unwrap();
    let busy = bench.fetch().await.unwrap_err();
    assert!(matches!(busy, DownloadError::Busy { .. }), "{busy}");
    drop(partial);
    bench.fetch().await.unwrap();
    bench.assert_complete();
    assert_eq!(bench.server.requests(), ["GET /file bytes=10000-"]);
}

#[tokio::test]
async fn a_text_is_small_or_refused() {
    let bench = Bench::new().await;
    let downloader = Downloader::new(Limits::default()).unwrap();
    bench.server.put(FILE, Answer::File(b"hello".to_vec()));
    assert_eq!(downloader.text(&bench.server.url(FILE), 5).await.unwrap(), "hello");
    assert!(matches!(downloader.text(&bench.server.url(FILE), 4).await, Err(DownloadError::TooLarge { .. })));
    bench.server.put(FILE, Answer::File(vec![0xff]));
    assert!(downloader.text(&bench.server.url(FILE), 5).await.unwrap_err().is_trust());
    bench.server.put(FILE, Answer::Endless);
    assert!(matches!(downloader.text(&bench.server.url(FILE), 5).await, Err(DownloadError::TooLarge { .. })));
}
