//! Speaking to the kernel about links, addresses and routes of one namespace. Every function states what is to be
//! and may be repeated.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use ipnet::Ipv4Net;
use nix::errno::Errno;
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::{AddressMessageBuilder, Error, Handle, LinkUnspec, RouteMessageBuilder, new_connection};

use super::link::LinkError;
use super::namespace::Namespace;

/// A connection to the kernel from inside one namespace.
pub(super) struct Netlink {
    handle: Handle,
    path: PathBuf,
}

/// What we want to know of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub index: u32,
    pub name: String,
    pub hardware: Vec<u8>,
    pub controller: Option<u32>,
    /// The index of the other end of a pair, in that end's namespace.
    pub peer: Option<u32>,
    pub up: bool,
}

/// Runs the work on a thread inside the namespace, with a connection of its own.
pub(super) fn within<T: Send>(
    namespace: &Namespace,
    work: impl AsyncFnOnce(&Netlink) -> Result<T, LinkError> + Send,
) -> Result<T, LinkError> {
    let path = namespace.path().to_owned();
    let thread = move || {
        let trouble = |path: &Path, source| LinkError::Connect { path: path.to_owned(), source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| trouble(&path, source))?;
        runtime.block_on(async {
            let (connection, handle, _) = new_connection().map_err(|source| trouble(&path, source))?;
            tokio::spawn(connection);
            work(&Netlink { handle, path }).await
        })
    };
    namespace.inside(thread).map_err(|source| LinkError::Enter { source })?
}

impl Netlink {
    pub async fn links(&self) -> Result<Vec<Link>, LinkError> {
        let messages = self.handle.link().get().execute().try_collect::<Vec<_>>().await;
        Ok(self.did("list the links", messages)?.into_iter().map(link).collect())
    }

    pub async fn link(&self, name: &str) -> Result<Option<Link>, LinkError> {
        match self.handle.link().get().match_name(name).execute().try_next().await {
            Err(error) if is(&error, Errno::ENODEV) => Ok(None),
            found => Ok(self.did(format!("look for the link {name}"), found)?.map(link)),
        }
    }

    pub async fn add(&self, name: &str, message: LinkMessage) -> Result<(), LinkError> {
        self.did(format!("make the link {name}"), self.handle.link().add(message).execute().await)
    }

    /// Sets what the message says of the link with this index.
    pub async fn change(&self, name: &str, message: LinkMessage) -> Result<(), LinkError> {
        self.did(format!("set up the link {name}"), self.handle.link().change(message).execute().await)
    }

    pub async fn delete(&self, link: &Link) -> Result<(), LinkError> {
        match self.handle.link().del(link.index).execute().await {
            Err(error) if is(&error, Errno::ENODEV) => Ok(()),
            result => self.did(format!("remove the link {}", link.name), result),
        }
    }

    pub async fn loopback_up(&self) -> Result<u32, LinkError> {
        let lo = self.link("lo").await?.ok_or_else(|| LinkError::Missing { name: "lo", path: self.path.clone() })?;
        self.change("lo", LinkUnspec::new_with_index(lo.index).up().build()).await?;
        Ok(lo.index)
    }

    pub async fn add_address(&self, link: u32, address: Ipv4Net) -> Result<(), LinkError> {
        let request = self.handle.address().add(link, address.addr().into(), address.prefix_len()).replace();
        self.did(format!("add the address {address}"), request.execute().await)
    }

    /// The addresses of a link that stand for themselves alone, without a subnet.
    pub async fn lone_addresses(&self, link: u32) -> Result<Vec<Ipv4Addr>, LinkError> {
        let messages = self.handle.address().get().set_link_index_filter(link).execute().try_collect::<Vec<_>>().await;
        let lone = self.did("list the addresses", messages)?.into_iter().filter(|m| m.header.prefix_len == 32);
        Ok(lone.flat_map(|message| message.attributes).filter_map(ipv4).collect())
    }

    pub async fn remove_address(&self, link: u32, address: Ipv4Net) -> Result<(), LinkError> {
        let message =
            AddressMessageBuilder::<Ipv4Addr>::new().index(link).address(address.addr(), address.prefix_len()).build();
        match self.handle.address().del(message).execute().await {
            Err(error) if is(&error, Errno::EADDRNOTAVAIL) => Ok(()),
            result => self.did(format!("remove the address {address}"), result),
        }
    }

    pub async fn default_route(&self, link: u32, gateway: Ipv4Addr) -> Result<(), LinkError> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(gateway).output_interface(link).build();
        let result = self.handle.route().add(route).replace().execute().await;
        self.did(format!("set the default route to {gateway}"), result)
    }

    fn did<T>(&self, what: impl Into<String>, result: Result<T, Error>) -> Result<T, LinkError> {
        result.map_err(|source| LinkError::Change { what: what.into(), path: self.path.clone(), source: source.into() })
    }
}

/// Writes a setting below `/proc/sys/net` of the namespace this thread is in. A kernel that lacks the subject (no
/// IPv6, no bridge filtering) lacks the setting too, and is as good as set.
pub(super) fn set(name: &str, value: &str) -> Result<(), LinkError> {
    let path = Path::new("/proc/sys/net").join(name);
    match OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(value.as_bytes())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(|source| LinkError::Setting { path, value: value.to_owned(), source }),
    }
}

fn ipv4(attribute: AddressAttribute) -> Option<Ipv4Addr> {
    match attribute {
        AddressAttribute::Local(IpAddr::V4(address)) => Some(address),
        _ => None,
    }
}

fn is(error: &Error, errno: Errno) -> bool {
    matches!(error, Error::NetlinkError(message) if message.to_io().raw_os_error() == Some(errno as i32))
}

fn link(message: LinkMessage) -> Link {
    let header = message.header;
    let mut link = Link {
        index: header.index,
        name: String::new(),
        hardware: Vec::new(),
        controller: None,
        peer: None,
        up: header.flags.contains(LinkFlags::Up),
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Address(address) => link.hardware = address,
            LinkAttribute::Controller(index) => link.controller = Some(index),
            LinkAttribute::Link(index) => link.peer = Some(index),
            _ => {}
        }
    }
    link
}
