//! Rows by duration: a tree whose inner nodes also know their rows in order of time, by type.
//!
//! "The n-th longest between two moments" asks about two orders at once. Going down the tree, a node is passed over when
//! all of its rows in the time range come before what is wanted, and how many those are is two binary searches in its
//! rows. Each row stands once in a leaf, and once in each level of inner nodes but the topmost.

use std::ops::Range;

use super::super::record::Kind;
use super::Row;
use super::tally::{Way, Window};

/// The most entries of a leaf.
const LEAF: usize = 512;
/// The most children of an inner node.
const FAN: usize = 32;
const KINDS: usize = Kind::ALL.len();

/// One row: duration, then row, then type, so that entries sort by duration and by time within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timed(u64);

impl Timed {
    pub(super) const fn new(length: u32, row: Row, kind: Kind) -> Self {
        Self((length as u64) << 32 | ((row as u64) << 2 & 0xffff_ffff) | kind as u64)
    }

    const fn row(self) -> Row {
        (self.0 as u32) >> 2
    }

    const fn kind(self) -> usize {
        (self.0 & 3) as usize
    }
}

/// The number of rows that one process can count: an entry has thirty bits for them.
pub(super) const MAX_ROW: Row = (1 << 30) - 1;

/// What is asked for: rows of a time range, of some types.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) rows: Range<Row>,
    pub(super) kinds: [bool; KINDS],
}

impl Wanted {
    fn has(&self, entry: Timed) -> bool {
        self.rows.contains(&entry.row()) && self.kinds[entry.kind()]
    }
}

/// The tree.
#[derive(Debug)]
pub(super) struct Lengths {
    root: Node,
}

#[derive(Debug)]
enum Node {
    Leaf(Vec<Timed>),
    Inner(Inner),
}

#[derive(Debug)]
struct Inner {
    /// The smallest entry that each child may hold.
    firsts: Vec<Timed>,
    children: Vec<Node>,
    /// Its rows, ascending, by type. The topmost node keeps none.
    rows: [Vec<Row>; KINDS],
}

impl Default for Lengths {
    fn default() -> Self {
        Self { root: Node::Leaf(Vec::new()) }
    }
}

impl Lengths {
    /// A tree of these entries, in any order.
    pub(super) fn of(mut entries: Vec<Timed>) -> Self {
        entries.sort_unstable();
        let room = LEAF * 7 / 8;
        let mut nodes: Vec<(Timed, Node)> =
            entries.chunks(room).map(|chunk| (chunk[0], Node::Leaf(chunk.to_vec()))).collect();
        while nodes.len() > 1 {
            let topmost = nodes.len() <= FAN;
            let mut above = Vec::with_capacity(nodes.len().div_ceil(FAN * 3 / 4));
            let mut left = nodes.into_iter().peekable();
            while left.peek().is_some() {
                let children = left.by_ref().take(if topmost { FAN } else { FAN * 3 / 4 });
                let (firsts, children): (Vec<Timed>, Vec<Node>) = children.unzip();
                above.push((firsts[0], Node::Inner(Inner::new(firsts, children, topmost))));
            }
            nodes = above;
        }
        Self { root: nodes.pop().map_or(Node::Leaf(Vec::new()), |(_, node)| node) }
    }

    pub(super) fn insert(&mut self, entry: Timed) {
        if let Some((first, right)) = self.root.insert(entry, true) {
            let mut left = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
            left.know_rows();
            let firsts = vec![left.first(), first];
            self.root = Node::Inner(Inner::new(firsts, vec![left, right], true));
        }
    }

    /// Takes an entry out; nothing happens if it is not there.
    pub(super) fn remove(&mut self, entry: Timed) {
        self.root.remove(entry, true);
        // A root with one child is that child.
        while let Node::Inner(inner) = &mut self.root
            && inner.children.len() <= 1
        {
            let mut child = inner.children.pop().unwrap_or(Node::Leaf(Vec::new()));
            if let Node::Inner(inner) = &mut child {
                inner.rows = Default::default();
            }
            self.root = child;
        }
    }

    /// Forgets every row before `row`.
    pub(super) fn drop_before(&mut self, row: Row) {
        self.root.drop_before(row);
    }

    /// Offers the wanted rows in order of duration, until the window is full.
    pub(super) fn collect(&self, wanted: &Wanted, way: Way, window: &mut Window<Row>) {
        self.root.collect(wanted, way, window);
    }
}

impl Inner {
    fn new(firsts: Vec<Timed>, children: Vec<Node>, topmost: bool) -> Self {
        let mut node = Self { firsts, children, rows: Default::default() };
        if !topmost {
            node.know_rows();
        }
        node
    }

    fn know_rows(&mut self) {
        let mut rows: [Vec<Row>; KINDS] = Default::default();
        self.children.iter().for_each(|child| child.add_rows(&mut rows));
        for rows in &mut rows {
            rows.sort_unstable();
            rows.shrink_to_fit();
        }
        self.rows = rows;
    }

    /// The child that holds, or would hold, an entry.
    fn child_for(&self, entry: Timed) -> usize {
        self.firsts.partition_point(|first| *first <= entry).saturating_sub(1)
    }
}

impl Node {
    fn first(&self) -> Timed {
        match self {
            Self::Leaf(entries) => entries.first().copied().unwrap_or(Timed(0)),
            Self::Inner(inner) => inner.firsts.first().copied().unwrap_or(Timed(0)),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(entries) => entries.is_empty(),
            Self::Inner(inner) => inner.children.is_empty(),
        }
    }

    fn know_rows(&mut self) {
        if let Self::Inner(inner) = self {
            inner.know_rows();
        }
    }

    fn add_rows(&self, rows: &mut [Vec<Row>; KINDS]) {
        match self {
            Self::Leaf(entries) => entries.iter().for_each(|entry| rows[entry.kind()].push(entry.row())),
            Self::Inner(inner) => inner.children.iter().for_each(|child| child.add_rows(rows)),
        }
    }

    /// Adds an entry; when the node had to be cut in two, gives the right part and its first entry.
    fn insert(&mut self, entry: Timed, topmost: bool) -> Option<(Timed, Self)> {
        match self {
            Self::Leaf(entries) => {
                let at = entries.partition_point(|other| *other < entry);
                entries.insert(at, entry);
                if entries.len() <= LEAF {
                    return None;
                }
                // What grows at its end stays full.
                let cut = if at + 1 == entries.len() { at } else { entries.len() / 2 };
                let right = entries.split_off(cut);
                Some((right[0], Self::Leaf(right)))
            }
            Self::Inner(inner) => {
                if !topmost {
                    let rows = &mut inner.rows[entry.kind()];
                    let at = rows.partition_point(|row| *row < entry.row());
                    rows.insert(at, entry.row());
                }
                let at = inner.child_for(entry);
                inner.firsts[at] = inner.firsts[at].min(entry);
                if let Some((first, node)) = inner.children[at].insert(entry, false) {
                    inner.firsts.insert(at + 1, first);
                    inner.children.insert(at + 1, node);
                }
                if inner.children.len() <= FAN {
                    return None;
                }
                let cut = if at + 2 >= inner.children.len() { FAN * 7 / 8 } else { FAN / 2 };
                let (firsts, children) = (inner.firsts.split_off(cut), inner.children.split_off(cut));
                if !topmost {
                    inner.know_rows();
                }
                Some((firsts[0], Self::Inner(Inner::new(firsts, children, false))))
            }
        }
    }

    fn remove(&mut self, entry: Timed, topmost: bool) -> bool {
        match self {
            Self::Leaf(entries) => match entries.binary_search(&entry) {
                Ok(at) => {
                    entries.remove(at);
                    true
                }
                Err(_) => false,
            },
            Self::Inner(inner) => {
                let at = inner.child_for(entry);
                let Some(child) = inner.children.get_mut(at) else { return false };
                if !child.remove(entry, false) {
                    return false;
                }
                if child.is_empty() {
                    inner.children.remove(at);
                    inner.firsts.remove(at);
                }
                if !topmost {
                    let rows = &mut inner.rows[entry.kind()];
                    if let Ok(at) = rows.binary_search(&entry.row()) {
                        rows.remove(at);
                    }
                }
                true
            }
        }
    }

    fn drop_before(&mut self, row: Row) {
        match self {
            Self::Leaf(entries) => entries.retain(|entry| entry.row() >= row),
            Self::Inner(inner) => {
                for rows in &mut inner.rows {
                    rows.drain(..rows.partition_point(|other| *other < row));
                }
                inner.children.iter_mut().for_each(|child| child.drop_before(row));
                let kept: Vec<bool> = inner.children.iter().map(|child| !child.is_empty()).collect();
                let mut keep = kept.iter();
                inner.children.retain(|_| keep.next() == Some(&true));
                let mut keep = kept.iter();
                inner.firsts.retain(|_| keep.next() == Some(&true));
            }
        }
    }

    /// How many wanted rows are below this node.
    fn count(&self, wanted: &Wanted) -> u64 {
        match self {
            Self::Leaf(entries) => entries.iter().filter(|entry| wanted.has(**entry)).count() as u64,
            Self::Inner(inner) => {
                // Without a time range all of them are within: told by the ends, since each look at a row in the middle
                // of a long list waits for memory.
                let within = |rows: &Vec<Row>| {
                    let before = |row: Row| match (rows.first(), rows.last()) {
                        (Some(first), _) if *first >= row => 0,
                        (_, Some(last)) if *last < row => rows.len(),
                        _ => rows.partition_point(|other| *other < row),
                    };
                    before(wanted.rows.end).saturating_sub(before(wanted.rows.start)) as u64
                };
                inner.rows.iter().zip(wanted.kinds).filter(|(_, kind)| *kind).map(|(rows, _)| within(rows)).sum()
            }
        }
    }

    fn collect(&self, wanted: &Wanted, way: Way, window: &mut Window<Row>) {
        match (self, way) {
            (Self::Leaf(entries), Way::Up) => offer(entries.iter(), wanted, window),
            (Self::Leaf(entries), Way::Down) => offer(entries.iter().rev(), wanted, window),
            (Self::Inner(inner), Way::Up) => visit(inner.children.iter(), wanted, way, window),
            (Self::Inner(inner), Way::Down) => visit(inner.children.iter().rev(), wanted, way, window),
        }
    }
}

fn offer<'a>(entries: impl Iterator<Item = &'a Timed>, wanted: &Wanted, window: &mut Window<Row>) {
    for entry in entries.filter(|entry| wanted.has(**entry)) {
        window.offer(entry.row());
    }
}

fn visit<'a>(children: impl Iterator<Item = &'a Node>, wanted: &Wanted, way: Way, window: &mut Window<Row>) {
    for child in children {
        if window.full() {
            return;
        }
        if !window.pass(child.count(wanted)) {
            child.collect(wanted, way, window);
        }
    }
}
