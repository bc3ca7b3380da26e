//! sled against the memory model: any sequence of batches, reads, dumps and restarts has the same effect.

use proptest::prelude::*;

use super::super::batch::MAX_VALUE_BYTES;
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(Table, u8, Option<Vec<u8>>)>, Durability),
    Scan(Table, u8, u8, usize),
    Get(Table, u8),
    Reopen,
    Backup,
}

fn table() -> impl Strategy<Value = Table> {
    prop_oneof![Just(Table::Keys), Just(Table::Sessions)]
}

fn step() -> impl Strategy<Value = Step> {
    let value = proptest::option::of(prop_oneof![
        9 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0..MAX_VALUE_BYTES).prop_map(|len| vec![b'v'; len]),
    ]);
    let durability = prop_oneof![Just(Durability::Process), Just(Durability::Power)];
    prop_oneof![
        10 => (proptest::collection::vec((table(), 0..20_u8, value), 0..8), durability)
            .prop_map(|(ops, durability)| Step::Commit(ops, durability)),
        4 => (table(), 0..22_u8, 0..22_u8, 0..9_usize)
            .prop_map(|(table, from, to, limit)| Step::Scan(table, from, to, limit)),
        2 => (table(), 0..22_u8).prop_map(|(table, key)| Step::Get(table, key)),
        1 => Just(Step::Reopen),
        1 => Just(Step::Backup),
    ]
}

/// Keys of several lengths whose order is not that of the numbers.
fn key(number: u8) -> Vec<u8> {
    vec![number.wrapping_mul(37); usize::from(number % 3) + 1]
}

async fn compare(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open_sled(dir.path());
    let model = Store::memory();
    for step in steps {
        match step {
            Step::Commit(ops, durability) => {
                let mut batch = Batch::new();
                for (table, number, value) in ops {
                    match value {
                        Some(value) => batch.put(table, key(number), value),
                        None => batch.delete(table, key(number)),
                    };
                }
                store.commit(batch.clone(), durability).await.unwrap();
                model.commit(batch, durability).await.unwrap();
            }
            Step::Scan(table, from, to, limit) => {
                let range = KeyRange::between(&key(from), &key(to));
                assert_eq!(
                    store.scan(table, range.clone(), limit).await.unwrap(),
                    model.scan(table, range, limit).await.unwrap()
                );
            }
            Step::Get(table, number) => {
                assert_eq!(store.get(table, &key(number)).await.unwrap(), model.get(table, &key(number)).await.unwrap())
            }
            Step::Reopen => {
                store.close().await.unwrap();
                store = open_sled(dir.path());
            }
            Step::Backup => {
                let file = store.backup().await.unwrap().path;
                store.close().await.unwrap();
                restore(dir.path(), &file, &[]).unwrap();
                store = open_sled(dir.path());
            }
        }
        assert_eq!(contents(&store).await, contents(&model).await);
    }
    store.close().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(rounds("WARMPOOL_MODEL_CASES", 24)).unwrap(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn sled_does_what_the_model_does(steps in proptest::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(compare(steps));
    }
}
