//! `sector top` on real clouds: one screen as text, the screen in a terminal with its keys, and what it says without
//! one. The terminal is made by `script` (util-linux), and what stands on its screen is worked out here. It never asks
//! when something was drawn.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use cluster::{Cloud, MASTER, Roles, poll_until, program};

/// `sector top` in a terminal of its own. It is ended with the test, also when that fails.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    /// All that it has written.
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Begins it. When it has ended, its exit code and the state of the terminal are written.
    fn open(cloud: &Cloud, variables: &str) -> Self {
        let top = format!("{variables} {} top", program().display());
        let script = format!("stty cols {COLUMNS} rows {ROWS}; {top}; echo ended with $?; stty -a; echo closed");
        let mut command = Command::new("script");
        command.args(["-qec", &script, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
            .env("SECTOR_HOME", &cloud.home)
            .env_remove("SECTOR_PROFILE")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm");
        let mut child = command.spawn().expect("`script`, of util-linux");
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let written = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&written);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(bytes @ 1..) = output.read(&mut piece) {
                all.lock().unwrap().extend_from_slice(&piece[..bytes]);
            }
        });
        Self { child, keys, written }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Waits until this stands on the screen.
    fn shows(&self, part: &str) {
        let mut looked_at = 0;
        poll_until(&format!("`{part}` is on the screen"), || {
            let text = self.text();
            let is_new = std::mem::replace(&mut looked_at, text.len()) != text.len();
            (is_new && on_screen(&text).contains(part)).then_some(())
        });
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// All that was written after it had ended: its exit code, and the state of the terminal.
    fn end(self) -> String {
        poll_until("it has ended", || {
            let text = self.text();
            let (_, after) = text.rsplit_once("ended with ")?;
            after.contains("closed").then(|| after.to_owned())
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // What runs in the terminal ends with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What stands on a screen after all that was written: places, a cleared screen, and characters one column wide.
fn on_screen(written: &str) -> String {
    let mut screen = vec![vec![' '; COLUMNS]; ROWS];
    let (mut row, mut column) = (0, 0);
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            if let Some(cell) = screen.get_mut(row).and_then(|row: &mut Vec<char>| row.get_mut(column)) {
                *cell = character;
            }
            column += 1;
            continue;
        }
        let mut sequence = String::new();
        for part in characters.by_ref() {
            sequence.push(part);
            if part.is_ascii_alphabetic() {
                break;
            }
        }
        if let Some(place) = sequence.strip_prefix('[').and_then(|rest| rest.strip_suffix('H')) {
            let (to_row, to_column) = place.split_once(';').unwrap_or(("1", "1"));
            (row, column) = (to_row.parse::<usize>().unwrap() - 1, to_column.parse::<usize>().unwrap() - 1);
        } else if sequence == "[2J" || sequence == "[?1049h" {
            screen = vec![vec![' '; COLUMNS]; ROWS];
        }
    }
    screen.into_iter().map(|row| row.into_iter().collect::<String>() + "\n").collect()
}

#[test]
fn top_prints_one_screen_of_a_cloud_as_text() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    cloud.until("both nodes have told their load", |cloud| {
        let screen = cloud.ok(&["top", "--once"]);
        ["node-1 ", "node-2 "].iter().all(|node| screen.lines().any(|line| line.contains(node) && line.contains(" %")))
    });
    let screen = cloud.ok(&["top", "--once"]);
    assert!(screen.lines().nth(1).unwrap().starts_with("2 of 2 nodes up, 2 sites"), "{screen}");
    assert!(screen.contains("site-1: 1 of 1 up") && screen.contains("site-2: 1 of 1 up"), "{screen}");
    assert!(!screen.contains('\u{1b}'), "no terminal is commanded: {screen:?}");
    let file = cloud.file("in", "a b\na\n");
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/in"]);
    cloud.ok(&["run", "--udf", "words", "--input", "/in", "--output", "/out"]);
    let jobs = cloud.ok(&["top", "--once", "jobs"]);
    let job = jobs.lines().find(|line| line.contains("words over /in")).unwrap_or_else(|| panic!("{jobs}"));
    assert!(job.contains("done") && job.contains("admin") && job.contains("100 %"), "{job}");
    assert!(cloud.ok(&["top", "work", "--once"]).contains("`sector work` shows all"));
    assert!(cloud.ok(&["top", "transfers", "--once"]).contains("[waiting transfers 0]"));
    assert!(cloud.ok(&["top", "links", "--once"]).contains("[links "));
}

#[test]
fn top_without_a_terminal_is_refused_before_a_cloud_is_asked() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let said = cloud.fails(2, &["top"]);
    assert!(said.contains("no terminal") && said.contains("`sector load`"), "{said}");
    let said = cloud.fails(2, &["--profile", "elsewhere.toml", "top"]);
    assert!(said.contains("no terminal"), "{said}");
    assert!(cloud.fails(2, &["--json", "top", "--once"]).contains("has no JSON"));
    cloud.fails(3, &["--profile", "elsewhere.toml", "top", "--once"]);
}

#[test]
fn top_goes_by_its_keys_and_leaves_the_terminal_as_it_was() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    for leave in ["q", "\u{3}"] {
        let mut terminal = Terminal::open(&cloud, "");
        terminal.shows("node-1");
        terminal.press("2");
        terminal.shows("There is no job yet.");
        terminal.press("1\u{1b}[B\r");
        terminal.shows("disk-latency");
        terminal.press(leave);
        assert!(terminal.text().contains("\u{1b}[?1049h"), "it has a page of its own");
        let written = Arc::clone(&terminal.written);
        let after = terminal.end();
        assert!(after.starts_with('0'), "{after}");
        assert!(after.contains(" icanon") && after.contains(" echo "), "keys are echoed again: {after}");
        let written = String::from_utf8_lossy(&written.lock().unwrap()).into_owned();
        assert!(
            written.contains("\u{1b}[?1049l") && written.contains("\u{1b}[?25h"),
            "the page and the cursor are back"
        );
    }
}

#[test]
fn top_says_that_the_master_is_away_and_goes_on_when_it_is_back() {
    let mut cloud = Roles::start(1, 1);
    let mut terminal = Terminal::open(&cloud, "NO_COLOR=1");
    terminal.shows("ok: every file has its copies");
    cloud.kill(MASTER);
    terminal.shows("not known now: ");
    terminal.shows(": ok: every file has its copies");
    terminal.shows("node-1");
    cloud.run_role(MASTER);
    cloud.until_up(1);
    terminal.shows("1 of 1 node up");
    poll_until("the state is known again", || (!on_screen(&terminal.text()).contains("not known now")).then_some(()));
    assert!(!terminal.text().contains("\u{1b}[38;5;"), "there are no colours");
    terminal.press("q");
    assert!(terminal.end().starts_with('0'));
}

const COLUMNS: usize = 80;
const ROWS: usize = 24;
