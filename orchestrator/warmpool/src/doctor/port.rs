//! Whether the listening port can be had, and if not, who has it.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::Path,
};

/// The port to listen on, as the host has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Port {
    /// It can be had.
    Free,
    /// Some process listens there; its name and id, if this user may know them.
    Taken(Option<(String, u32)>),
    /// This user may not listen there.
    Denied,
    /// The address is none of this host's.
    NotOurs,
    /// Something else is in the way.
    Unusable(String),
}

impl Port {
    pub(super) fn look(address: SocketAddr) -> Self {
        match TcpListener::bind(address) {
            Ok(_) => Self::Free,
            Err(error) => match error.kind() {
                io::ErrorKind::AddrInUse => Self::Taken(holder(Path::new("/proc"), address.port())),
                io::ErrorKind::PermissionDenied => Self::Denied,
                io::ErrorKind::AddrNotAvailable => Self::NotOurs,
                _ => Self::Unusable(error.to_string()),
            },
        }
    }
}

/// The process that listens on a port: name and id.
fn holder(proc: &Path, port: u16) -> Option<(String, u32)> {
    let tables = ["net/tcp", "net/tcp6"].map(|table| fs::read_to_string(proc.join(table)).unwrap_or_default());
    let links: Vec<_> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| listening_inode(line, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    fs::read_dir(proc).ok()?.flatten().find_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let holds = |link: &Path| links.iter().any(|socket| link == Path::new(socket));
        files.find(|file| fs::read_link(file.path()).is_ok_and(|link| holds(&link)))?;
        let name = fs::read_to_string(process.path().join("comm")).ok()?;
        Some((name.trim().to_owned(), id))
    })
}

/// The inode in a line of `/proc/net/tcp`, if that line is a listening socket on `port`.
fn listening_inode(line: &str, port: u16) -> Option<&str> {
    const LISTEN: &str = "0A";
    let columns: Vec<_> = line.split_whitespace().collect();
    let (_, local_port) = columns.get(1)?.rsplit_once(':')?;
    let here = u16::from_str_radix(local_port, 16).ok()? == port && *columns.get(3)? == LISTEN;
    columns.get(9).copied().filter(|_| here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_its_holder() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let Port::Taken(Some((_, id))) = Port::look(address) else { panic!("{:?}", Port::look(address)) };
        assert_eq!(id, std::process::id());
        assert_eq!(Port::look("127.0.0.1:0".parse().unwrap()), Port::Free);
        assert_eq!(Port::look("192.0.2.1:0".parse().unwrap()), Port::NotOurs);
    }

    #[test]
    fn only_listening_sockets_count() {
        let line = |state| {
            format!("  0: 0100007F:115C 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 4711 1")
        };
        assert_eq!(listening_inode(&line("0A"), 4444), Some("4711"));
        assert_eq!(listening_inode(&line("0A"), 4445), None);
        assert_eq!(listening_inode(&line("01"), 4444), None);
        assert_eq!(listening_inode("", 4444), None);
    }
}
