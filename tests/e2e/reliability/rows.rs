//! The table of faults.

use warmpool_tests::suite::checks_group;

/// A fault, and which cases make it.
pub(crate) struct Row {
    /// Its place in the table.
    pub(crate) number: u8,
    /// What is done.
    pub(crate) fault: &'static str,
    /// What must follow.
    pub(crate) expected: &'static str,
    /// The cases that make it, each as `group::case`.
    pub(crate) cases: &'static [&'static str],
    /// What of the fault no case makes; nothing where the row is whole.
    pub(crate) falls_short: Option<&'static str>,
}

impl Row {
    /// Whether the row's line tells what came of this case: it is one of the row's, or it checks a daemon that such cases share.
    pub(super) fn tells_of(&self, title: &str) -> bool {
        let has_of =
            |group: &str| self.cases.iter().any(|case| case.split_once("::").is_some_and(|(of, _)| of == group));
        self.cases.contains(&title) || checks_group(title).is_some_and(has_of)
    }
}

/// An incident elsewhere, what keeps it from happening here, and the cases that show it.
pub(super) type Incident = (&'static str, &'static str, &'static [&'static str]);

pub(super) const INCIDENTS: &[Incident] = &[
    (
        "Grids without a key, open to the internet, were made to mine coins (SeleniumGreed, 2024)",
        "every call needs a key, the daemon listens on loopback unless told otherwise, and clients choose no program, image, mount or unknown switch",
        &["access::a_key_is_needed", "chromium_fence::only_judged_switches_reach_the_browser"],
    ),
    (
        "A web page started sessions of a local Selenium, and so programs (CVE-2022-28108)",
        "a request names a host and an origin that the settings know, has JSON, and a key in a header",
        &["bad_input::another_content_type_is_415", "row_requests::a_page_of_another_origin_starts_nothing"],
    ),
    (
        "A name that was rebound to this machine reached geckodriver 0.30",
        "hosts are compared whole, on every route, and the driver has no port",
        &["access::a_foreign_page_is_refused", "page_isolation::a_page_reaches_no_port_of_firefox"],
    ),
    (
        "DevTools ports stood open, and websockets were not asked for their origin",
        "the browser's port is a socket in its container; each websocket needs its session's token",
        &["access::a_wrong_token_opens_nothing", "page_isolation::a_page_reaches_no_port_of_chromium"],
    ),
    (
        "An origin was compared by its beginning, so that 127.0.0.1.evil.com passed (CVE-2026-102878)",
        "scheme, host and port are compared, each whole",
        &["access::a_foreign_page_is_refused", "row_requests::a_page_of_another_origin_starts_nothing"],
    ),
    (
        "Any origin was allowed by default, and an upload's name led out of its folder (CVE-2025-6152)",
        "no origin is allowed by default, and unsafe names of files are refused",
        &["files::unsafe_names_are_refused", "access::a_foreign_page_is_refused"],
    ),
    (
        "Screenshots showed files of the server, by spellings of file: that a filter of text let through (CVE-2020-7790, CVE-2024-21547)",
        "the browser's own policy blocks these schemes, and the container has nothing to read",
        &["leaks::no_engine_sends_datagrams", "row_files::no_spelling_of_a_file_is_read"],
    ),
    (
        "Pages read the credentials of a cloud's metadata service",
        "the daemon opens each connection of a page itself, after judging its address; workers have no network",
        &["egress::no_page_of_chromium_reaches_what_is_not_public", "leaks::the_doctor_gets_out_of_no_worker"],
    ),
    (
        "Containers reached the engine's own interface (CVE-2025-9074)",
        "a worker has no route to any host, and no socket of the engine",
        &["egress::a_worker_has_no_way_around_the_proxy", "leaks::the_doctor_gets_out_of_no_worker"],
    ),
    (
        "Containers got out by holes of runc (CVE-2024-21626, CVE-2025-31133, CVE-2025-52565, CVE-2025-52881)",
        "clients choose no image, mount or working directory; `warmpool doctor` warns of a runc with known ways out, and docker.runtime may name a stronger one. To update it is the host's task",
        &["warmpool::doctor::check::tests::a_runc_that_containers_get_out_of_is_named"],
    ),
    (
        "Coins were mined through a screenshot service, some seconds at a time (2018)",
        "calls end at their time, a worker has its share of processors, and a key its number of sessions",
        &["page_call_limits::calls_end_in_time", "queue::a_key_has_a_limit_of_its_own"],
    ),
    (
        "One client's cookies showed up in another's browser, where both were given the same one",
        "a used worker is destroyed",
        &["row_successors::nothing_is_left_to_the_next_session"],
    ),
    (
        "A proxy passed on what followed a request for an upgrade before the upgrade was answered (CVE-2026-2833)",
        "nothing passes before both sides have answered 101",
        &["row_requests::nothing_passes_before_the_browser_agrees"],
    ),
    (
        "A proxy and the server behind it disagreed about where a body ends (CVE-2026-2835)",
        "requests are read by one parser and written anew",
        &["row_requests::requests_that_can_be_read_two_ways"],
    ),
    (
        "A request named a header as its connection's, and the proxy took it away from the server (CVE-2026-105299)",
        "such headers go first, and the daemon's own are set after them",
        &["row_requests::requests_that_can_be_read_two_ways"],
    ),
    (
        "Libraries that parse what strangers send had holes (hyper, h2, tungstenite)",
        "`scripts/check` compares every dependency with RustSec's advisories, and `scripts/fuzz` feeds the daemon's own parsers; the tests of the relay show what such a client may do at worst",
        &[
            "relay::a_client_that_stops_reading_is_cut",
            "row_frames::a_million_tiny_frames",
            "row_requests::requests_that_can_be_read_two_ways",
        ],
    ),
    (
        "Tokens in addresses ended up in logs",
        "the log of requests has paths without their queries, and REST takes keys from headers alone",
        &["row_requests::every_call_hides_what_is_anothers", "task_durability::secrets_are_not_stored_in_the_clear"],
    ),
];

/// What a fault is on a Swarm where it is another one than on a single host, by its row; and the cases and tests that make it there.
pub(super) type OnSwarm = (u8, &'static str, &'static [&'static str]);

pub(super) const ON_SWARM: &[OnSwarm] = &[
    (
        1,
        "The daemon is killed and finds its services again by their labels; or Swarm starts its container anew, on this manager or on another one",
        &[
            "swarm::sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back",
            "swarm::the_guide_leads_to_a_stack_that_goes_on_when_it_is_killed_or_changed",
            "swarm::the_daemon_moves_to_another_manager_and_comes_back_from_a_backup",
        ],
    ),
    (
        5,
        "A node is cut off with its connections open: its sessions end as node_lost, and others notice nothing",
        &["swarm::sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back"],
    ),
    (
        9,
        "A node dies with its engine, and the daemon's manager does",
        &[
            "swarm::sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back",
            "swarm::the_daemon_moves_to_another_manager_and_comes_back_from_a_backup",
        ],
    ),
    (
        10,
        "The manager sends half of any answer, or none",
        &["warmpool_runtime::client::tests::every_call_ends_though_the_answer_does_not"],
    ),
    (
        13,
        "The data is gone with its node and comes back from a backup; and a second daemon wants the workers of the first one",
        &[
            "swarm::the_daemon_moves_to_another_manager_and_comes_back_from_a_backup",
            "swarm::nodes_without_image_or_fence_are_left_out_and_two_daemons_take_turns",
        ],
    ),
    (
        20,
        "A worker tries other workers and the daemon over the overlay; and nodes without the fence get no workers",
        &[
            "swarm::sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back",
            "swarm::nodes_without_image_or_fence_are_left_out_and_two_daemons_take_turns",
        ],
    ),
    (
        25,
        "A node is drained, gently or at once; and one that was away comes back with the workers it had",
        &[
            "swarm::a_reservation_that_fits_nowhere_is_refused_and_nodes_are_drained",
            "swarm::sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back",
        ],
    ),
];

pub(crate) const ROWS: &[Row] = &[
    Row {
        number: 1,
        fault: "The daemon is killed with live sessions, queued tasks and warm workers, and started again",
        expected: "live sessions go on in the same browsers, queued tasks run once, running ones end as interrupted, warm workers are kept, nothing is left over",
        cases: &[
            "faults::sessions_outlive_a_killed_daemon",
            "faults::a_worker_lost_with_the_daemon_is_a_failure",
            "task_durability::kill_9_in_each_state",
            "row_crashes::one_kill_with_everything_going_on",
        ],
        falls_short: None,
    },
    Row {
        number: 2,
        fault: "The daemon is killed at random moments while clients create, use and delete sessions and order tasks",
        expected: "it starts each time and gives sessions, what it acknowledged is there and has one end, and no container has no owner",
        cases: &["task_durability::kill_9_in_each_state", "row_crashes::kills_at_random_moments"],
        falls_short: None,
    },
    Row {
        number: 3,
        fault: "A worker's container is killed during a DevTools session, or while it is warm",
        expected: "the client gets Close 1011 with the reason, the session fails once as worker_exited, and another worker starts",
        cases: &["faults::a_killed_worker_is_a_failure", "faults::a_worker_killed_while_warm_is_replaced"],
        falls_short: None,
    },
    Row {
        number: 4,
        fault: "Only the browser's process is killed",
        expected: "the session or task fails once as browser_crashed, and the container is not used again",
        cases: &["faults::a_killed_browser_is_a_failure", "task_faults::a_browser_that_dies_ends_its_task"],
        falls_short: None,
    },
    Row {
        number: 5,
        fault: "A worker is paused, or its browser stopped, so that it hangs with its connections open",
        expected: "its session fails as unresponsive and its container is removed; the slowest commands of other sessions take less than four times as long, and 50 ms",
        cases: &[
            "faults::a_paused_worker_is_a_failure",
            "faults::a_frozen_browser_is_a_failure",
            "row_worker::a_hanging_worker_delays_no_other",
        ],
        falls_short: None,
    },
    Row {
        number: 6,
        fault: "A page takes all memory: its renderer is killed for it, or the browser itself",
        expected: "only that session is touched, and its record says that memory ran out (out_of_memory, or oom_kills where it goes on); the daemon's own memory stays as it was",
        cases: &[
            "faults::a_page_that_takes_all_memory_leaves_its_reason",
            "row_worker::a_browser_that_is_killed_for_memory_says_so",
        ],
        falls_short: None,
    },
    Row {
        number: 7,
        fault: "A worker is filled with processes, and with 100 000 files",
        expected: "the limits of its container stop both, other sessions go on, and it is removed within ten seconds",
        cases: &[
            "files::a_full_worker_refuses_files",
            "row_worker::processes_without_end_stay_inside",
            "row_worker::a_hundred_thousand_files_stay_inside",
        ],
        falls_short: None,
    },
    Row {
        number: 8,
        fault: "The container engine is restarted with live-restore",
        expected: "no session is lost, messages flow on, and the daemon is ready again by itself",
        cases: &["row_engine_restart::sessions_outlive_an_engine_with_live_restore"],
        falls_short: None,
    },
    Row {
        number: 9,
        fault: "The container engine is restarted without live-restore, and stays away for five minutes",
        expected: "sessions end once as engine_stopped, /readyz answers 503 and /healthz 200, new sessions get 503 with Retry-After, and the daemon recovers by itself",
        cases: &["faults::the_engine_may_go_and_come_back", "row_engine_restart::an_engine_away_for_minutes"],
        falls_short: None,
    },
    Row {
        number: 10,
        fault: "The engine makes a container and its answer is lost, or any other answer is lost, cut, delayed or garbled",
        expected: "there is one container for each worker and none without an owner; the pool fills again by itself",
        cases: &["faults::half_an_answer_of_the_engine_stops_nothing", "row_engine::each_call_is_spoiled_in_each_way"],
        falls_short: None,
    },
    Row {
        number: 11,
        fault: "The engine hangs when it is to remove a container",
        expected: "the call ends at its deadline and is made again; other sessions and /healthz do not notice",
        cases: &["row_engine::removing_hangs"],
        falls_short: None,
    },
    Row {
        number: 12,
        fault: "The data disk fills up while work goes on, with the guard of store.min_free and without",
        expected: "recordings give way first, new work gets 507, what runs waits with what it has; a daemon without a guard ends where no byte is left; nothing acknowledged is lost",
        cases: &[
            "full_disk::a_fleet_waits_and_loses_nothing",
            "full_disk::items_that_never_began_are_tried_again",
            "full_disk::finished_work_waits_for_room",
            "full_disk::recordings_stop_first",
            "row_full_disk::a_disk_without_a_byte_loses_nothing",
        ],
        falls_short: None,
    },
    Row {
        number: 13,
        fault: "The files of the store are cut, zeroed, flipped or overwritten: of the database, the mark, the journal and the log beside it, and backups; and a second daemon wants to use them",
        expected: "the daemon starts and serves; every acknowledged record is there; where the log, the mark, the journal or the backup is damaged together with the database, /status says how many commits are lost; what a backup has is there, what was revoked stays so, and the damaged files are kept; the second daemon is refused",
        cases: &["row_damage::damage_is_told_or_does_no_harm", "faults::a_second_daemon_on_the_same_data_is_refused"],
        falls_short: None,
    },
    Row {
        number: 14,
        fault: "A client vanishes without a word: queued, being served, served but not attached, idle, amid a command, amid a stream, watching the live view",
        expected: "one end for each session, and its place is free again; a session does not end with its viewers",
        cases: &[
            "queue::a_caller_who_leaves_frees_the_place",
            "pool::a_caller_who_leaves_leaves_no_worker",
            "session_ends::a_session_nobody_attaches_to_ends",
            "session_ends::a_killed_client_is_waited_for",
            "connections::a_client_that_vanishes_frees_the_browser",
            "row_clients::clients_vanish_in_seven_phases",
        ],
        falls_short: None,
    },
    Row {
        number: 15,
        fault: "A client asks for much and stops reading",
        expected: "its connection is closed, and the daemon holds no more than a message of what waits for it",
        cases: &["relay::a_client_that_stops_reading_is_cut", "connections::a_client_that_never_reads_is_cut_off"],
        falls_short: None,
    },
    Row {
        number: 16,
        fault: "Messages as long as allowed and one byte longer, both ways, and a million tiny frames",
        expected: "the first arrive whole, the second close with 1009, and tiny frames take bounded memory and time",
        cases: &[
            "relay::a_long_result_arrives_whole",
            "relay::a_long_message_closes_1009",
            "row_frames::messages_at_the_limit_and_beyond",
            "row_frames::a_million_tiny_frames",
        ],
        falls_short: None,
    },
    Row {
        number: 17,
        fault: "10 000 idle websockets, 1 000 clients that send their heads a byte at a time, and no descriptor left",
        expected: "idle sockets take little memory, slow senders are closed at their deadline, and new sessions start as before; without a descriptor, what is open goes on and new sessions get 503",
        cases: &[
            "connections::connections_of_one_address_are_limited",
            "faults::descriptors_that_run_out_are_waited_for",
            "row_sockets::ten_thousand_idle_websockets",
            "row_sockets::a_thousand_slow_senders",
        ],
        falls_short: None,
    },
    Row {
        number: 18,
        fault: "500 requests for sessions at once, with ten places",
        expected: "ten run, the queue fills, the rest get 429 with Retry-After at once; keys take turns, and the callers of one are served in their order",
        cases: &[
            "queue::the_first_to_come_is_served_first",
            "queue::a_full_queue_says_so",
            "queue::waiting_has_an_end",
            "queue::keys_take_turns",
            "queue::a_key_has_a_limit_of_its_own",
            "row_queue::five_hundred_requests_for_ten_places",
            "row_queue::a_greedy_key_leaves_room",
        ],
        falls_short: None,
    },
    Row {
        number: 19,
        fault: "The wall clock is set forward and back by hours, while the daemon runs and between two starts; the machine sleeps for two hours",
        expected: "no session and no task ends early or lives on, ids stay unique, and the history is in the order of its times",
        cases: &[
            "recovery::a_wall_clock_that_jumps_ends_nothing",
            "row_clock::a_clock_set_while_it_runs",
            "row_clock::a_clock_set_between_two_starts",
            "row_clock::a_machine_that_sleeps",
        ],
        falls_short: None,
    },
    Row {
        number: 20,
        fault: "Pages try metadata addresses in every notation, rebound names, the gateway, siblings, the engine and local files",
        expected: "all are refused, nothing is reached, and public pages load",
        cases: &[
            "egress::no_page_of_chromium_reaches_what_is_not_public",
            "egress::no_page_of_firefox_reaches_what_is_not_public",
            "egress::no_page_of_webkit_reaches_what_is_not_public",
            "leaks::a_name_that_is_rebound_leads_nowhere",
            "leaks::no_engine_sends_datagrams",
            "row_files::no_spelling_of_a_file_is_read",
            "leaks::the_doctor_gets_out_of_no_worker",
        ],
        falls_short: None,
    },
    Row {
        number: 21,
        fault: "A page of another origin calls the daemon: with an Origin, a rebound Host, names that look alike, plain text, no-cors",
        expected: "403 or 415 before any handler, no container, no CORS header",
        cases: &[
            "access::a_foreign_page_is_refused",
            "bad_input::another_content_type_is_415",
            "bad_input::a_request_names_one_host",
            "row_requests::a_page_of_another_origin_starts_nothing",
        ],
        falls_short: None,
    },
    Row {
        number: 22,
        fault: "A key uses what belongs to another, and a key is revoked while it has a session",
        expected: "404 each time; live sockets close at once when the key is revoked; no key stands in a log",
        cases: &[
            "access::another_keys_session_is_404",
            "access::a_wrong_token_opens_nothing",
            "keys::are_created_rotated_and_revoked",
            "keys::a_revoked_key_gets_no_session_that_it_waits_for",
            "row_requests::every_call_hides_what_is_anothers",
            "row_requests::a_wrong_key_takes_as_long_whatever_it_shares",
        ],
        falls_short: None,
    },
    Row {
        number: 23,
        fault: "A session leaves cookies, storage, databases, caches, service workers, files and processes; another follows",
        expected: "the next one finds nothing, in a container that nobody had before",
        cases: &[
            "pool::a_worker_with_a_clients_state_waits_for_nobody_else",
            "row_successors::nothing_is_left_to_the_next_session",
        ],
        falls_short: None,
    },
    Row {
        number: 24,
        fault: "Requests that two servers would read differently: two lengths, a length with chunks, nominated headers, bytes before the 101; and a driver that stops in its answer",
        expected: "refused, or passed on as exactly one clean request; a driver is given up at its time",
        cases: &[
            "relay::frames_sent_before_the_101_are_kept_whole",
            "bad_input::a_request_names_one_host",
            "row_requests::requests_that_can_be_read_two_ways",
            "row_requests::nothing_passes_before_the_browser_agrees",
            "row_requests::a_driver_that_stops_is_given_up",
        ],
        falls_short: None,
    },
    Row {
        number: 25,
        fault: "SIGTERM with live sessions and queued tasks, a second SIGTERM, and a node that is away and comes back",
        expected: "no new sessions, live ones end by the deadline, the queue is kept; the second ends at once; a lost node's sessions end once and it starts clean",
        cases: &[
            "faults::sigterm_drains",
            "faults::drain_has_an_end",
            "faults::a_second_sigterm_ends_at_once",
            "faults::half_an_answer_of_the_engine_stops_nothing",
            "task_durability::a_drain_interrupts_and_keeps_the_queue",
            "task_durability::a_second_sigterm_keeps_the_queue",
            "swarm::sessions_end_with_their_node_alone_and_none_is_left_when_it_is_back",
        ],
        falls_short: None,
    },
    Row {
        number: 26,
        fault: "A client that creates, attaches, deletes, runs tasks and kills at random, and knows what must be true after each step",
        expected: "what was acknowledged is there, what has ended stays ended with one end, lists have neither more nor less, and all is given back",
        cases: &["model::seeds_that_found_something_find_nothing", "row_model::a_random_client_finds_nothing"],
        falls_short: None,
    },
    Row {
        number: 27,
        fault: "Frames of every kind, right and wrong, whole and in pieces, long and many: the cases of the Autobahn suite, against an echo server; and compressed messages, whole and broken",
        expected: "the suite's verdicts, and what comes back, are the same through the relay as without it",
        cases: &[
            "row_autobahn::the_relay_changes_no_verdict",
            "relay::compressed_messages_pass_as_agreed",
            "relay::the_connection_ends_behind_the_browsers_close",
        ],
        falls_short: None,
    },
    Row {
        number: 28,
        fault: "Mixed work at full load for hours: sessions of all engines, viewers, recordings, tasks, fleets and worlds, while containers are killed; a round is a minute",
        expected: "the daemon's memory, descriptors, threads, asynchronous tasks, tables and files stay as they were, work of each kind and engine goes well, and all is given back",
        cases: &["row_soak::nothing_grows_with_time"],
        falls_short: None,
    },
];
