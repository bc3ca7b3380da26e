//! The index beside a plain list: whatever happens, both answer every question alike.

use proptest::prelude::*;

use super::*;
use crate::task::index_row::LabelHash;
use crate::task::query::SortKey;
use warmpool_api::task::{Status, TaskKind};
use warmpool_core::ids::TaskIds;
use warmpool_core::metadata::Label;
use warmpool_core::sort::SortOrder;

const SORT_KEYS: [SortKey; 5] =
    [SortKey::Timestamp, SortKey::ExecutionTime, SortKey::TaskId, SortKey::Status, SortKey::ExecutionType];

/// The list that is searched by looking at everything.
#[derive(Default)]
struct Plain {
    tasks: Vec<Task>,
}

#[derive(Clone)]
struct Task {
    owner: KeyId,
    row: IndexRow,
    passcode: Option<&'static str>,
}

impl Plain {
    fn page(&self, owner: Option<&KeyId>, query: &TaskQuery) -> (Vec<TaskId>, u64) {
        let is_asked_for = |task: &&Task| owner.is_none_or(|owner| task.owner == *owner) && matches(query, task);
        let mut found: Vec<&Task> = self.tasks.iter().filter(is_asked_for).collect();
        found.sort_by(|a, b| {
            let by_key = match query.sort_by {
                SortKey::Timestamp => a.row.id.timestamp().cmp(&b.row.id.timestamp()),
                SortKey::ExecutionTime => a.row.duration.cmp(&b.row.duration),
                SortKey::TaskId => a.row.id.to_string().cmp(&b.row.id.to_string()),
                SortKey::Status => a.row.status.as_str().cmp(b.row.status.as_str()),
                SortKey::ExecutionType => a.row.kind.as_str().cmp(b.row.kind.as_str()),
            };
            by_key.then(a.row.id.timestamp().cmp(&b.row.id.timestamp())).then(a.row.id.cmp(&b.row.id))
        });
        if query.sort_order == SortOrder::Descend {
            found.reverse();
        }
        let skip = ((query.page - 1) * query.limit) as usize;
        let page = found.iter().skip(skip).take(query.limit as usize).map(|task| task.row.id).collect();
        (page, found.len() as u64)
    }
}

fn matches(query: &TaskQuery, task: &Task) -> bool {
    let at = task.row.id.timestamp();
    query.start_time.is_none_or(|start| at > start)
        && query.end_time.is_none_or(|end| at < end)
        && query.task_id.as_ref().is_none_or(|id| task.row.id.to_string() == *id)
        && (query.kinds.is_empty() || query.kinds.contains(&task.row.kind))
        && query.service_passcode.as_deref().is_none_or(|passcode| task.passcode == Some(passcode))
        && query.metadata.len() <= task.row.labels.len()
}

/// A pair of index and list, and what happens to both.
struct Pair {
    /// Most tasks are the first one's.
    owners: [KeyId; 2],
    ids: TaskIds,
    now: u64,
    index: History,
    plain: Plain,
}

/// A task has the first few of these.
const LABELS: [(&str, &str); 2] = [("team", "search"), ("stage", "test")];

/// What a query asks for that wants the first few.
fn labels(count: usize) -> Vec<Label> {
    LABELS[..count].iter().map(|(key, value)| Label::try_from(format!("{key}={value}")).unwrap()).collect()
}

const PASSCODES: [Option<&str>; 4] = [None, Some("ann"), Some("bob"), Some("cem")];

impl Pair {
    fn new() -> Self {
        Self {
            owners: ["0123456789ab", "ba9876543210"].map(|owner| owner.parse().unwrap()),
            ids: TaskIds::default(),
            now: 1_700_000_000_000,
            index: History::default(),
            plain: Plain::default(),
        }
    }

    fn add(&mut self, later: u64, kind: usize, passcode: usize) {
        self.now += later;
        let passcode = PASSCODES[passcode % PASSCODES.len()];
        let owner = self.owners[usize::from(self.now.is_multiple_of(8))].clone();
        let row = IndexRow {
            id: self.ids.next(self.now),
            kind: TaskKind::ALL[kind % TaskKind::ALL.len()],
            status: Status::Queued,
            duration: 0,
            user: passcode.map(EndUser::from_passcode),
            labels: LABELS[..kind % 3].iter().map(|(key, value)| LabelHash::new(key, value)).collect(),
        };
        self.index.add(&owner, &row);
        self.plain.tasks.push(Task { owner, row, passcode });
    }

    fn change(&mut self, which: usize, status: usize, duration: u32) {
        let at = which % self.plain.tasks.len().max(1);
        let Some(task) = self.plain.tasks.get_mut(at) else { return };
        task.row.status = Status::ALL[status % Status::ALL.len()];
        task.row.duration = duration;
        self.index.change(&task.owner, &task.row);
    }

    fn withdraw(&mut self, which: usize) {
        if !self.plain.tasks.is_empty() {
            let task = self.plain.tasks.remove(which % self.plain.tasks.len());
            self.index.withdraw(&task.owner, &task.row);
        }
    }

    /// Withdraws the oldest.
    fn forget(&mut self, count: usize) {
        let count = count.min(self.plain.tasks.len());
        self.plain.tasks.drain(..count).for_each(|task| self.index.withdraw(&task.owner, &task.row));
    }

    /// Withdraws all but each of so many.
    fn thin(&mut self, each: usize) {
        let mut at = 0;
        self.plain.tasks.retain(|task| {
            at += 1;
            let stays = (at - 1) % each == 0;
            if !stays {
                self.index.withdraw(&task.owner, &task.row);
            }
            stays
        });
    }

    fn reload(&mut self) {
        self.index = History::default();
        for task in &self.plain.tasks {
            self.index.add(&task.owner, &task.row);
        }
    }

    /// The tasks of one key, and those of all.
    fn check(&self, query: &TaskQuery) {
        for owner in [Some(&self.owners[0]), None] {
            assert_eq!(self.index.page(owner, query), self.plain.page(owner, query), "{owner:?}: {query:?}");
        }
    }

    /// Every sort key both ways, with this filter.
    fn check_all(&self, filter: &TaskQuery) {
        let len = self.plain.tasks.len();
        assert_eq!(self.index.len(), len);
        let everyone = (len > 0).then_some(&self.index.everyone);
        let lists = self.index.keys.values().chain(everyone);
        for list in lists.flat_map(|lists| lists.users.values().chain([&lists.all])) {
            assert!((1..=2 * len + 66).contains(&list.rows_kept()), "{} rows for {len} tasks", list.rows_kept());
        }
        for sort_by in SORT_KEYS {
            for sort_order in [SortOrder::Ascend, SortOrder::Descend] {
                self.check(&TaskQuery { sort_by, sort_order, ..filter.clone() });
            }
        }
    }

    fn time(&self, share: u64) -> u64 {
        1_700_000_000_000 + (self.now - 1_700_000_000_000) * share / 100
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(u64, usize, usize),
    AddMany(usize, u32),
    Change(usize, usize, u32),
    Withdraw(usize),
    Forget(usize),
    Thin(usize),
    Reload,
    Ask(Ask),
}

#[derive(Debug, Clone)]
struct Ask {
    start: Option<u64>,
    end: Option<u64>,
    one: Option<usize>,
    kinds: Vec<usize>,
    passcode: usize,
    page: u64,
    limit: u64,
}

fn ask() -> impl Strategy<Value = Ask> {
    let share = proptest::option::of(0..=100_u64);
    let one = proptest::option::weighted(0.1, any::<usize>());
    (share.clone(), share, one, proptest::collection::vec(0..3_usize, 0..3), 0..5_usize, 1..40_u64, 1..=100_u64)
        .prop_map(|(start, end, one, kinds, passcode, page, limit)| Ask {
            start,
            end,
            one,
            kinds,
            passcode,
            page,
            limit,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u64, 0..3_usize, 0..4_usize).prop_map(|(later, kind, user)| Step::Add(later, kind, user)),
        2 => (1..1500_usize, 1..2000_u32).prop_map(|(count, spread)| Step::AddMany(count, spread)),
        6 => (any::<usize>(), 0..5_usize, 0..300_u32).prop_map(|(which, status, length)| Step::Change(which, status, length)),
        1 => any::<usize>().prop_map(Step::Withdraw),
        1 => (0..900_usize).prop_map(Step::Forget),
        1 => (2..50_usize).prop_map(Step::Thin),
        1 => Just(Step::Reload),
        4 => ask().prop_map(Step::Ask),
    ]
}

fn filter(pair: &Pair, ask: &Ask) -> TaskQuery {
    let one = ask.one.and_then(|at| pair.plain.tasks.get(at % pair.plain.tasks.len().max(1)));
    TaskQuery {
        start_time: ask.start.map(|share| pair.time(share)),
        end_time: ask.end.map(|share| pair.time(share)),
        task_id: one.map(|task| task.row.id.to_string()),
        kinds: ask.kinds.iter().map(|kind| TaskKind::ALL[*kind]).collect(),
        service_passcode: PASSCODES.get(ask.passcode).copied().flatten().map(str::to_owned),
        metadata: labels(usize::try_from(ask.limit).unwrap() % 3),
        page: ask.page,
        limit: ask.limit,
        ..TaskQuery::default()
    }
}

fn many(pair: &mut Pair, count: usize, spread: u32) {
    for at in 0..count {
        pair.add((at % 3) as u64, at % 7, at % 5);
        let length = (at as u32).wrapping_mul(2_654_435_761) % spread;
        pair.change(pair.plain.tasks.len() - 1, at % 11, length);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_index_answers_as_a_plain_list_does(steps in proptest::collection::vec(step(), 1..40)) {
        let mut pair = Pair::new();
        for step in steps {
            match step {
                Step::Add(later, kind, passcode) => pair.add(later, kind, passcode),
                Step::AddMany(count, spread) => many(&mut pair, count, spread),
                Step::Change(which, status, length) => pair.change(which, status, length),
                Step::Withdraw(which) => pair.withdraw(which),
                Step::Forget(count) => pair.forget(count),
                Step::Thin(each) => pair.thin(each),
                Step::Reload => pair.reload(),
                Step::Ask(ask) => pair.check_all(&filter(&pair, &ask)),
            }
        }
        pair.check_all(&TaskQuery::default());
    }
}

#[test]
fn whole_blocks_and_groups_answer_as_rows_do() {
    let mut pair = Pair::new();
    many(&mut pair, 40_000, 5_000);
    for (start, end, kinds, passcode, page) in
        [(None, None, 0, None, 1), (Some(3), Some(97), 1, None, 200), (Some(50), None, 2, Some("ann"), 20)]
    {
        let query = TaskQuery {
            start_time: start.map(|share| pair.time(share)),
            end_time: end.map(|share| pair.time(share)),
            kinds: TaskKind::ALL[..kinds].to_vec(),
            service_passcode: passcode.map(str::to_owned),
            page,
            ..TaskQuery::default()
        };
        pair.check_all(&query);
    }
    let labelled = TaskQuery { metadata: labels(2), ..TaskQuery::default() };
    pair.check_all(&labelled);
    pair.forget(25_000);
    pair.check_all(&labelled);
    pair.thin(2);
    pair.check_all(&labelled);
    pair.check_all(&TaskQuery { page: 75, limit: 100, ..TaskQuery::default() });
    pair.reload();
    pair.check_all(&TaskQuery { page: 75, limit: 100, ..TaskQuery::default() });
    pair.forget(100_000);
    pair.check_all(&TaskQuery::default());
    assert!(pair.index.keys.is_empty(), "nothing is left of a key without tasks");
    assert_eq!((pair.index.len(), pair.index.everyone.all.rows_kept()), (0, 0));
    assert!(pair.index.everyone.users.is_empty());
}

#[test]
fn another_keys_tasks_are_not_found() {
    let mut pair = Pair::new();
    many(&mut pair, 20, 9);
    let other: KeyId = "ffffffffffff".parse().unwrap();
    assert_eq!(pair.index.page(Some(&other), &TaskQuery::default()), (Vec::new(), 0));
}

/// How long a page takes in memory; run by hand: `cargo test --release -p warmpool-tasks history -- --ignored --nocapture`.
#[test]
#[ignore = "measures; proves nothing on a machine that does other things"]
fn the_cost_of_a_page() {
    for rows in [1_000, 1_000_000] {
        let mut pair = Pair::new();
        many(&mut pair, rows, 60_000);
        let begun = std::time::Instant::now();
        pair.reload();
        println!("{rows} rows loaded in {:?}", begun.elapsed());
        let labelled = TaskQuery { metadata: labels(1), sort_by: SortKey::ExecutionTime, ..TaskQuery::default() };
        let begun = std::time::Instant::now();
        let (_, total) = std::hint::black_box(pair.index.page(None, &labelled));
        println!("{rows} rows: {total} with a label, by duration, in {:?}", begun.elapsed());
        let (mut worst, mut asked) = (std::time::Duration::ZERO, String::new());
        for sort_by in SORT_KEYS {
            for (start, end) in [(None, None), (Some(10), Some(90))] {
                for passcode in [None, Some("ann")] {
                    for kinds in [vec![], vec![TaskKind::Run], vec![TaskKind::Run, TaskKind::Extract]] {
                        for page in [1, rows as u64 / 2000 + 1] {
                            let query = TaskQuery {
                                start_time: start.map(|share| pair.time(share)),
                                end_time: end.map(|share| pair.time(share)),
                                kinds: kinds.clone(),
                                service_passcode: passcode.map(str::to_owned),
                                page,
                                limit: 100,
                                sort_by,
                                ..TaskQuery::default()
                            };
                            let begun = std::time::Instant::now();
                            for _ in 0..20 {
                                std::hint::black_box(pair.index.page(None, &query));
                            }
                            let took = begun.elapsed() / 20;
                            if took > worst {
                                (worst, asked) = (took, format!("{query:?}"));
                            }
                        }
                    }
                }
            }
        }
        println!("{rows} rows: worst page {worst:?}: {asked}");
    }
}
