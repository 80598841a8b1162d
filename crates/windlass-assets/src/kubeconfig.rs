//! The kubeconfigs as an asset: those of the components under `assets/kubeconfig`, and the user's own
//! at `auth/kubeconfig`.

use std::collections::BTreeMap;

use windlass_pki::{Kubeconfig, Pki};
use windlass_spec::{CompleteSpec, Secret};

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

/// Who speaks to the API with which credentials: a file for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfigs {
    files: BTreeMap<String, Secret<String>>,
}

/// The kubeconfigs that `prepare` makes, with the place of each.
fn places(api_port: u16) -> [(Kubeconfig, &'static str); 6] {
    [
        (Kubeconfig::Host { port: api_port }, "auth/kubeconfig"),
        (Kubeconfig::Admin, "assets/kubeconfig/admin.kubeconfig"),
        (Kubeconfig::ControllerManager, "assets/kubeconfig/controller-manager.kubeconfig"),
        (Kubeconfig::Scheduler, "assets/kubeconfig/scheduler.kubeconfig"),
        (Kubeconfig::Checkpointer, "assets/kubeconfig/checkpointer.kubeconfig"),
        (Kubeconfig::KubeletBootstrap, "assets/kubeconfig/kubelet-bootstrap.kubeconfig"),
    ]
}

impl Kubeconfigs {
    /// Renders every kubeconfig.
    pub fn make(spec: &CompleteSpec, pki: &Pki) -> Self {
        let port = match &spec.spec.platform {
            windlass_spec::file::Platform::Local(local) => local.api_port,
            _ => 6443,
        };
        let render = |(kind, path): (Kubeconfig, &str)| (path.to_owned(), kind.render(spec, pki));
        Kubeconfigs { files: places(port).into_iter().map(render).collect() }
    }

    /// A component's kubeconfig by its file name without the ending.
    pub fn component(&self, name: &str) -> Option<&Secret<String>> {
        self.files.get(&format!("assets/kubeconfig/{name}.kubeconfig"))
    }
}

impl Asset for Kubeconfigs {
    const NAME: &'static str = "kubeconfigs";

    fn files(&self) -> Vec<AssetFile> {
        self.files.iter().map(|(path, text)| AssetFile::new(path, text.expose().as_bytes())).collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        let read = |(_, path): (Kubeconfig, &str)| {
            let text = dir.require_text(path, Self::NAME)?;
            Ok((path.to_owned(), Secret::new(text)))
        };
        Ok(Kubeconfigs { files: places(6443).into_iter().map(read).collect::<Result<_, AssetError>>()? })
    }
}
