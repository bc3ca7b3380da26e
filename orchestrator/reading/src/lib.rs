//! What a page says, without what stands around it: its main content as Markdown, its title, links and metadata.
//!
//! [`Reading::of_html`] reads one page, and [`robots`] says whether its site wants that. Calls on pages, tasks and tools of agents use it; it knows none of them.
//!
//! # Decisions
//!
//! - *A library finds the content*, `dom_smoothie`, as Mozilla's Readability does: others took years to get it right.
//! - *It gets HTML, and never a page that runs.* The page is hostile, and nothing here runs what it has. The HTML is parsed in the
//!   daemon, on a thread that may block, and what is nested deeper than any honest page is refused, since the library's functions
//!   call themselves for each level. The parser itself takes longer the deeper an element is, and the more attributes it has, so it is
//!   stopped on the way.
//! - *`robots.txt` is read by a library*, `texting_robots`, which millions of real files were tried on.

pub mod robots;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use dom_query::{Document, NodeData, NodeRef};
use dom_smoothie::{Article, Config, Readability, ReadabilityError, TextMode};
use html5ever::tendril::TendrilSink as _;
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Semaphore;
use url::Url;

/// Elements nested deeper are no page's.
const DEEPEST: usize = 600;
/// No element of an honest page has more attributes. What is done with one of them often looks at all others.
const MOST_ATTRIBUTES: usize = 1000;
/// The most bytes with which Markdown indents the lines of lists and quotations, each as often as they are nested.
const MOST_INDENT: usize = 64 << 20;
/// So many links are listed.
const MOST_LINKS: usize = 500;
/// The longest text of a link, in characters. The text of a link has that of the links inside it, so nested ones would repeat it.
const LINK_TEXT: usize = 1000;
/// HTML is parsed so many bytes at a time, and looked at in between: what a parser does for an element grows with how deep it is.
const PIECE: usize = 16 << 10;
/// How long parsing may take: many times what the largest honest page takes. What a parser does for an attribute grows with how many
/// the tag has already, and it shows none of them before the tag ends.
const PARSING: Duration = Duration::from_secs(10);
/// So many pages are read at once, so that the rest of the daemon keeps its processors. The others wait.
static READERS: Semaphore = Semaphore::const_new(2);
/// The stack of the thread that reads: many times what the deepest page takes.
const STACK: usize = 64 << 20;

/// Why a page is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is no page that anybody reads.
    #[error(
        "the page cannot be read: it nests elements deeper than {DEEPEST} levels, has more than {most} elements \
         (`pages.max_elements`), or more than {MOST_ATTRIBUTES} attributes of one; ask for its HTML by `/content`"
    )]
    TooMuch {
        /// `pages.max_elements`.
        most: usize,
    },
    /// It is made to take long, or to become long.
    #[error(
        "the page cannot be read: its HTML takes more than {} s to parse, or nests too many lines in lists and quotations; ask for its \
         HTML by `/content`",
        PARSING.as_secs()
    )]
    TooSlow,
    /// The library does not take it.
    #[error("the page cannot be read: {reason}")]
    Unread {
        /// Why, in the library's words.
        reason: String,
    },
    /// The host has no thread for it, or it was lost.
    #[error("the page cannot be read now: {reason}")]
    NoThread {
        /// Why.
        reason: String,
    },
}

/// A page, as it is read.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Reading {
    /// The page's address.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Who wrote it.
    pub byline: Option<String>,
    /// Its language, as a tag such as `en`.
    pub language: Option<String>,
    /// The main content.
    pub markdown: String,
    /// The links in the main content.
    pub links: Vec<ReadLink>,
    /// What the page says of itself.
    pub metadata: ReadMetadata,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReadLink {
    /// What people read.
    pub text: String,
    /// Where it leads.
    pub url: String,
}

/// What a page says of itself.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ReadMetadata {
    /// A summary, or the first words.
    pub excerpt: Option<String>,
    /// The name of its site.
    pub site_name: Option<String>,
    /// When it was published, as it says.
    pub published: Option<String>,
    /// When it was changed last, as it says.
    pub modified: Option<String>,
    /// The address of the picture that stands for the page.
    pub image: Option<String>,
    /// Whether the content is an article that was found; otherwise it is all of the page.
    pub is_article: bool,
}

impl Reading {
    /// Reads the HTML of a page at `url`, on a thread that may take its time. What parsers do for odd pages grows faster than the
    /// number of their elements, so one that has more than `most` is not read.
    /// Errors: [`ReadError`].
    pub async fn of_html(html: String, url: String, most: usize) -> Result<Self, ReadError> {
        // Each begins with an opening bracket, and most have one at their end.
        if html.bytes().filter(|byte| *byte == b'<').count() > most.saturating_mul(3) {
            return Err(ReadError::TooMuch { most });
        }
        let place = READERS.acquire().await.map_err(|error| lost(&error))?;
        let (sender, read) = tokio::sync::oneshot::channel();
        let work = move || {
            let _ = sender.send(Self::parse(&html, url, most));
            drop(place);
        };
        let thread = std::thread::Builder::new().name("read".to_owned()).stack_size(STACK);
        thread.spawn(work).map_err(|error| lost(&error))?;
        read.await.map_err(|error| lost(&error))?
    }

    fn parse(html: &str, url: String, most: usize) -> Result<Self, ReadError> {
        let document = parse(html, most, PARSING)?;
        let language = document.select_single("html").attr("lang").map(|lang| lang.to_string());
        let config = Config { max_elements_to_parse: most, text_mode: TextMode::Markdown, ..Config::default() };
        // A page without an address of its own has no links that lead on.
        let base = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut reader = Readability::with_document(document, base.as_ref().map(Url::as_str), Some(config))
            .map_err(|error| unread(&error))?;
        let reading = match reader.parse() {
            Ok(article) => Self::of_article(article, url),
            Err(ReadabilityError::GrabFailed) => {
                let document = parse(html, most, PARSING)?;
                document.select("script, style, noscript, template").remove();
                let title = document.select_single("title").text().trim().to_owned();
                let whole = document.select_single("body");
                let markdown = whole.nodes().first().map(|body| body.md(None).to_string()).unwrap_or_default();
                let links = links(&document, base.as_ref());
                let metadata = ReadMetadata::default();
                Self { url, title, byline: None, language: None, markdown, links, metadata }
            }
            Err(error) => return Err(unread(&error)),
        };
        Ok(Self { language: reading.language.clone().or(language), ..reading })
    }

    fn of_article(article: Article, url: String) -> Self {
        let content = Document::from(article.content.as_ref());
        let base = Url::parse(&url).ok();
        Self {
            url,
            title: article.title,
            byline: article.byline,
            language: article.lang,
            markdown: article.text_content.to_string(),
            links: links(&content, base.as_ref()),
            metadata: ReadMetadata {
                excerpt: article.excerpt,
                site_name: article.site_name,
                published: article.published_time,
                modified: article.modified_time,
                image: article.image,
                is_article: true,
            },
        }
    }
}

/// The links of a document, each address once.
fn links(document: &Document, base: Option<&Url>) -> Vec<ReadLink> {
    let mut seen = HashSet::new();
    let anchors = document.select("a[href]");
    let links = anchors.nodes().iter().filter_map(|anchor| {
        let href = anchor.attr("href")?;
        let url = base.map_or_else(|| Url::parse(&href), |base| base.join(&href)).ok()?;
        let is_new = matches!(url.scheme(), "http" | "https" | "mailto") && seen.insert(url.to_string());
        is_new.then(|| ReadLink { text: link_text(anchor), url: url.into() })
    });
    links.take(MOST_LINKS).collect()
}

/// The words of a link, on one line.
fn link_text(anchor: &NodeRef<'_>) -> String {
    let mut text = String::new();
    for node in anchor.descendants_it().filter(NodeRef::is_text) {
        let part = node.text();
        text.extend(part.chars().take(LINK_TEXT));
        if text.len() > 8 * LINK_TEXT {
            break;
        }
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(LINK_TEXT).collect()
}

/// Parses HTML, and stops where it is refused.
fn parse(html: &str, most: usize, time: Duration) -> Result<Document, ReadError> {
    let until = Instant::now() + time;
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let mut parser = parse_document(Document::default(), ParseOpts { tree_builder, ..ParseOpts::default() });
    let mut rest = html;
    while !rest.is_empty() {
        let end = (PIECE..rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (piece, others) = rest.split_at(end);
        parser.process(piece.into());
        check(&parser.tokenizer.sink.sink, most)?;
        if Instant::now() > until {
            return Err(ReadError::TooSlow);
        }
        rest = others;
    }
    let document = parser.finish();
    check(&document, most)?;
    check_indent(&document)?;
    Ok(document)
}

/// Refuses what would take the library's functions too deep, or too long.
fn check(document: &Document, most: usize) -> Result<(), ReadError> {
    let mut level = vec![document.root()];
    let (mut depth, mut elements) = (0, 0);
    while !level.is_empty() {
        depth += 1;
        elements += level.len();
        let attributes = |node: &NodeRef<'_>| node.query_or(0, |node| node.as_element().map_or(0, |it| it.attrs.len()));
        if depth > DEEPEST || elements > most || level.iter().any(|node| attributes(node) > MOST_ATTRIBUTES) {
            return Err(ReadError::TooMuch { most });
        }
        level = level.iter().flat_map(|node| node.children()).collect();
    }
    Ok(())
}

/// Refuses a page that would become much longer as Markdown: each line of a nested quotation begins with the marks of all around it.
fn check_indent(document: &Document) -> Result<(), ReadError> {
    /// The longest mark: a number of nine digits, and what stands around it.
    const MARK: usize = 12;
    let mut level = vec![(document.root(), 0_usize)];
    let mut indent = 0_usize;
    while !level.is_empty() {
        let mut next = Vec::new();
        for (node, nested) in level {
            let is_mark = ["blockquote", "ol", "ul"].iter().any(|name| node.has_name(name));
            let nested = nested + usize::from(is_mark);
            if node.is_text() && nested > 0 {
                let lines = node.query_or(0, |node| match &node.data {
                    NodeData::Text { contents } => contents.bytes().filter(|byte| *byte == b'\n').count() + 1,
                    _ => 0,
                });
                indent = indent.saturating_add(lines.saturating_mul(nested * MARK));
            }
            next.extend(node.children_it(false).map(|child| (child, nested)));
        }
        if indent > MOST_INDENT {
            return Err(ReadError::TooSlow);
        }
        level = next;
    }
    Ok(())
}

fn unread(error: &ReadabilityError) -> ReadError {
    ReadError::Unread { reason: error.to_string() }
}

fn lost(error: &dyn std::error::Error) -> ReadError {
    ReadError::NoThread { reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> Result<Reading, ReadError> {
        Reading::parse(html, "https://tea.example/a/page".to_owned(), 50_000)
    }

    #[test]
    fn an_article_is_found_among_all_else() {
        let words =
            "Green tea is steamed after it was picked, and so it keeps its colour and much of its taste. ".repeat(8);
        let page = read(&format!(
            "<html lang=en><title>Green tea - Tea House</title><meta name=author content='Ann Brewer'>\
             <nav><a href=/shop>Shop</a></nav><article><h1>Green tea</h1><p>{words}<p>{words} <a href=../how>How</a></article>\
             <footer>Imprint</footer><script>alert(1)</script>"
        ))
        .unwrap();
        assert!(page.title.starts_with("Green tea"), "{page:?}");
        assert_eq!((page.byline.as_deref(), page.language.as_deref()), (Some("Ann Brewer"), Some("en")));
        assert!(page.markdown.contains("keeps its colour") && !page.markdown.contains("Imprint"), "{}", page.markdown);
        assert_eq!(page.links, [ReadLink { text: "How".to_owned(), url: "https://tea.example/how".to_owned() }]);
        assert!(page.metadata.is_article);
    }

    #[test]
    fn what_is_no_article_is_read_as_a_whole() {
        let page = read("<title>Menu</title><h1>Tea</h1><ul><li><a href=https://a.example/>Green</a></ul>").unwrap();
        assert_eq!(page.title, "Menu");
        assert!(page.markdown.contains("Tea") && page.markdown.contains("Green"), "{page:?}");
        assert_eq!(page.links.len(), 1);
        read("").unwrap();
    }

    #[test]
    fn nobody_takes_the_daemon_down_by_attributes() {
        let many = |count: usize| (0..count).map(|at| format!(" a{at}=1")).collect::<String>();
        assert!(matches!(read(&format!("<p{}>tea", many(1001))), Err(ReadError::TooMuch { .. })));
        read(&format!("<p{}>tea", many(1000))).unwrap();
        // Each of the tags adds to the one element.
        let bodies: String = (0..1001).map(|at| format!("<body a{at}=1>")).collect();
        assert!(matches!(read(&bodies), Err(ReadError::TooMuch { .. })));
        // Within a tag there is nothing to be seen but the time. This would take an hour.
        let endless = format!("<p x='>'{}>", many(1 << 20));
        assert!(matches!(parse(&endless, 50_000, Duration::from_millis(100)), Err(ReadError::TooSlow)));
    }

    #[test]
    fn what_is_nested_repeats_neither_its_text_nor_its_marks() {
        let anchors: String = (0..100).map(|at| format!("<a href=/{at}><object>")).collect();
        let page = read(&format!("<title>t</title>{anchors}{}", "tea ".repeat(10_000))).unwrap();
        assert!(page.links.iter().all(|link| link.text.chars().count() <= LINK_TEXT), "a link has more");
        let lines =
            |depth: usize, count: usize| format!("{}<pre>{}", "<blockquote>".repeat(depth), "x\n".repeat(count));
        assert!(matches!(read(&lines(500, 100_000)), Err(ReadError::TooSlow)));
        read(&lines(3, 10_000)).unwrap();
    }

    #[test]
    fn nobody_takes_the_daemon_down_by_nesting() {
        for tag in ["<div>", "<b>", "<i></b>", "<blockquote>", "<ul><li>", "<table><tr><td>"] {
            assert!(matches!(read(&tag.repeat(20_000)), Err(ReadError::TooMuch { .. })), "{tag}");
        }
        read(&"<p>tea".repeat(10_000)).unwrap();
    }
}
