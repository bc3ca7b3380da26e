//! Which programs may be executed in a worker: a Landlock domain for each that the agent starts.
//!
//! The image leaves the worker's user the engine's programs and no other (`worker-image/common/close-programs`). A domain leaves
//! each of them those that it needs itself. It holds for the thread that enters it and for all that this thread starts, and
//! another one that is entered inside can only take away.

use std::io;
use std::process::{Child, Command};
use std::thread;

use landlock::{
    AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};

/// What loads the libraries of a program, on each architecture. The kernel executes it beside the program.
pub(crate) const LOADERS: [&str; 2] = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
/// What the X server compiles its keymap with.
pub(crate) const XKBCOMP: &str = "/usr/local/bin/xkbcomp";
/// What hands the pipe of DevTools to the agent.
pub(crate) const DEVTOOLS_PIPE: &str = "/usr/local/bin/devtools-pipe";
const CHROMIUM: &str = "/usr/lib/chromium/chromium";
const CRASHPAD: &str = "/usr/lib/chromium/chrome_crashpad_handler";

/// Programs by what they may execute, each named after the one that the agent starts there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    Display,
    Clipboard,
    Encoder,
    Chromium,
    Chromedriver,
    Firefox,
    Geckodriver,
    Webkit,
    WebkitDriver,
    Playwright,
    /// Everything, for tests that start programs of their own.
    #[cfg(test)]
    Open,
}

impl Domain {
    /// Every domain that there is in some image.
    pub(crate) const ALL: [Self; 10] = [
        Self::Display,
        Self::Clipboard,
        Self::Encoder,
        Self::Chromium,
        Self::Chromedriver,
        Self::Firefox,
        Self::Geckodriver,
        Self::Webkit,
        Self::WebkitDriver,
        Self::Playwright,
    ];

    /// The programs that may be executed, the one that the agent starts first.
    const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Display => &["/usr/local/bin/Xtigervnc", XKBCOMP],
            Self::Clipboard => &["/usr/local/bin/xclip"],
            Self::Encoder => &["/usr/local/bin/vpxenc"],
            Self::Chromium => &[CHROMIUM, CRASHPAD],
            // It takes the agent for its browser, and the agent starts the real one.
            Self::Chromedriver => &["/usr/local/bin/chromedriver", "/usr/local/bin/warmpool-agent", CHROMIUM, CRASHPAD],
            Self::Firefox => &["/usr/lib/firefox-esr/firefox-esr", "/usr/lib/firefox-esr/glxtest"],
            Self::Geckodriver => &["/usr/local/bin/geckodriver"],
            Self::Webkit => &[
                "/usr/local/bin/warmpool-webkit",
                "/usr/local/lib/webkit/WebKitNetworkProcess",
                "/usr/local/lib/webkit/WebKitWebProcess",
                "/usr/local/lib/webkit/WebKitGPUProcess",
                "/usr/local/lib/gstreamer/gst-plugin-scanner",
            ],
            Self::WebkitDriver => &["/usr/local/bin/WebKitWebDriver"],
            // It takes the second for its browser.
            Self::Playwright => &["/usr/local/bin/node", DEVTOOLS_PIPE],
            #[cfg(test)]
            Self::Open => &[""],
        }
    }

    /// The program that the agent starts there.
    pub(crate) const fn program(self) -> &'static str {
        self.programs()[0]
    }

    /// Starts a command in the domain.
    pub(crate) fn spawn(self, command: &mut Command) -> io::Result<Child> {
        // The thread that enters it never leaves it.
        let confined = || {
            self.enter().map_err(io::Error::other)?;
            command.spawn()
        };
        thread::scope(|scope| scope.spawn(confined).join())
            .unwrap_or_else(|_| Err(io::Error::other("the thread that starts a program has panicked")))
    }

    /// Whether the kernel has Landlock, and confines what is started in the domain.
    pub(crate) fn holds(self) -> bool {
        thread::scope(|scope| scope.spawn(|| self.enter()).join()).is_ok_and(|entered| entered.is_ok_and(|holds| holds))
    }

    /// Confines this thread, and all that it will start. Returns whether the kernel has Landlock.
    /// Fails when the kernel has it and the domain cannot be entered.
    pub(crate) fn enter(self) -> Result<bool, RulesetError> {
        #[cfg(test)]
        if self == Self::Open {
            return Ok(false);
        }
        confine(self.programs())
    }
}

/// Confines this thread, and all that it will start, to the programs of all domains. Returns whether the kernel has Landlock.
/// Fails as [`Domain::enter`] does.
pub(crate) fn confine_agent() -> Result<bool, RulesetError> {
    let programs: Vec<_> = Domain::ALL.iter().flat_map(|domain| domain.programs()).copied().collect();
    confine(&programs)
}

fn confine(programs: &[&str]) -> Result<bool, RulesetError> {
    let status = Ruleset::default()
        // Inside any domain, the first version of Landlock moves no file from one folder to another. That is as good as none.
        .set_compatibility(CompatLevel::SoftRequirement)
        .handle_access(AccessFs::Execute)?
        .handle_access(AccessFs::Refer)?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::Refer))?
        .add_rules(path_beneath_rules(LOADERS.iter().chain(programs), AccessFs::Execute))?
        .restrict_self()?;
    Ok(status.ruleset == RulesetStatus::FullyEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_executes_its_own_programs_alone() {
        let folders = ["a", "b"].map(|_| tempfile::tempdir().unwrap());
        let file = folders[0].path().join("file");
        std::fs::write(&file, "").unwrap();
        let confined = thread::scope(|scope| {
            let confined = scope.spawn(|| {
                let on = confine(&["/bin/true"]).unwrap();
                // Files still move, which Landlock forbids unless it is told.
                std::fs::rename(&file, folders[1].path().join("file")).unwrap();
                (
                    on,
                    Command::new("/bin/true").status().unwrap().success(),
                    Command::new("/bin/sh").arg("-c").arg("").status(),
                )
            });
            confined.join().unwrap()
        });
        let (on, own, other) = confined;
        assert!(own);
        match other {
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
            Ok(_) => assert!(!on, "a shell was executed"),
        }
        assert!(
            Command::new("/bin/sh").args(["-c", ""]).status().unwrap().success(),
            "the domain is the thread's alone"
        );
    }
}
