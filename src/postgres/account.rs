//! Under which user the PostgreSQL programs run, and how they are started.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Error;

/// The user that runs the PostgreSQL programs: this process's own, or another when this process
/// is root, because PostgreSQL refuses to run as root.
#[derive(Debug, Clone)]
pub(super) struct Account {
    /// The user id of this process.
    own: u32,
    /// Whom to become first: user, group, name for messages.
    become_user: Option<(u32, u32, String)>,
    /// Whether `setpriv` is here and can tie a program's life to that of this process.
    tied: bool,
}

impl Account {
    /// The account for a cluster that is yet to be made: ourselves, or as root `postgres`, else
    /// `nobody`.
    pub(super) fn detect() -> Result<Self, Error> {
        let own = id(&["-u"]).ok_or(Error::NoAccount)?;
        let become_user = match own {
            0 => {
                Some(["postgres", "nobody"].into_iter().find_map(look_up).ok_or(Error::NoAccount)?)
            }
            _ => None,
        };
        // Other programs of this name (busybox) know no --pdeathsig, so it is tried, not looked for.
        let tied = Command::new("setpriv")
            .args(["--pdeathsig", "INT", "true"])
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success());
        Ok(Self { own, become_user, tied })
    }

    /// The account for a cluster that `user` owns; only root can be somebody else.
    pub(super) fn for_owner(&self, user: u32, group: u32) -> Option<Self> {
        if user == self.uid() {
            return Some(self.clone());
        }
        (self.own == 0 && user != 0)
            .then(|| Self { become_user: Some((user, group, user.to_string())), ..self.clone() })
    }

    /// The user id of this process.
    pub(super) fn own_uid(&self) -> u32 {
        self.own
    }

    /// The user id that the programs run under.
    pub(super) fn uid(&self) -> u32 {
        self.become_user.as_ref().map_or(self.own, |(user, ..)| *user)
    }

    /// Whether programs end with this process even when it is killed.
    pub(super) fn is_tied(&self) -> bool {
        self.tied
    }

    /// Gives a file or directory to the account.
    pub(super) fn give(&self, path: &Path) -> std::io::Result<()> {
        match &self.become_user {
            Some((user, group, _)) => std::os::unix::fs::lchown(path, Some(*user), Some(*group)),
            None => Ok(()),
        }
    }

    /// Whether the account can enter this directory.
    pub(super) fn can_enter(&self, directory: &Path) -> bool {
        if self.become_user.is_none() {
            return true;
        }
        // Only the kernel knows (access lists, mounts), so the account itself is asked.
        self.command("test").arg("-x").arg(directory).status().is_ok_and(|status| status.success())
    }

    /// A program that runs under this account, in its own process group so that a Ctrl-C at the
    /// terminal reaches this process alone, and free of the caller's PostgreSQL variables.
    ///
    /// Becoming another user also drops the supplementary groups: the standard library does this
    /// when root sets a user id.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            // PGDATA, PGPORT, PGOPTIONS and the like would change what the programs do.
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        // English messages (they are matched and logged) and a working directory that is always
        // there.
        command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null()).process_group(0);
        if let Some((user, group, _)) = &self.become_user {
            command.uid(*user).gid(*group);
        }
        command
    }

    /// Like [`Account::command`], but the program gets SIGINT when the **thread** that starts it
    /// ends, which the kernel also sees to when this process is killed. Such a program must
    /// therefore be started by a thread that outlives it.
    pub(super) fn tied_command(&self, program: impl AsRef<OsStr>) -> Command {
        if !self.tied {
            return self.command(program);
        }
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "INT", "--"]).arg(program);
        command
    }

    /// Sends a signal, named without `SIG`; a process that is gone is no error.
    pub(super) fn signal(&self, signal: &str, pid: u32) {
        // The shell's own kill: the program of that name is in a package that may be missing.
        let sent = self
            .command("sh")
            .args(["-c", r#"kill -s "$0" "$1""#, signal, &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if let Err(error) = sent {
            tracing::warn!(pid, signal, %error, "could not send a signal to PostgreSQL");
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.become_user {
            Some((.., name)) => f.write_str(name),
            None => write!(f, "{}", self.own),
        }
    }
}

/// User id, group id and name of a user, if there is one of this name.
fn look_up(name: &str) -> Option<(u32, u32, String)> {
    Some((id(&["-u", name])?, id(&["-g", name])?, name.to_owned()))
}

/// What `id` prints. The standard library has no safe way to ask the system for it.
fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).stdin(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim_end().parse().ok()
}
