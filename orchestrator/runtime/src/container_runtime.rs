//! What the daemon asks of a container runtime.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ClusterFacts, ContainerState, DockerFacts, NodeCheck, NodeFacts, NodeOrder, OwnedContainer, Ownership, RendererId,
    RendererPipes, RuntimeError, WorkerLocation, WorkerSpec,
};
use warmpool_core::browser::Engine;
use warmpool_core::ids::WorkerId;

/// A place where containers run. What only a cluster has is provided here for a runtime of one host.
#[async_trait]
pub trait ContainerRuntime: Send + Sync {
    /// Checks that the runtime answers and can be used.
    /// Errors: [`RuntimeError::Unreachable`].
    async fn ping(&self) -> Result<(), RuntimeError>;

    /// Creates the network on which agents are reached, where there is to be one and it is missing.
    /// Errors: [`RuntimeError`]; `UnfitNetwork` where workers must not be put on the one that is there.
    async fn ensure_network(&self) -> Result<(), RuntimeError>;

    /// Creates and starts the worker's container, and returns where it runs.
    ///
    /// It is safe to call again for the same worker when a reply was lost: the name decides.
    /// Errors: [`RuntimeError`]; the caller removes what may have been created.
    async fn start(&self, spec: &WorkerSpec) -> Result<WorkerLocation, RuntimeError>;

    /// Returns the address of a worker on its network, and that network's first address, which is its gateway's where it has
    /// one; none where the worker has no address.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    async fn addresses(&self, worker: &WorkerId) -> Result<Option<(Ipv4Addr, Ipv4Addr)>, RuntimeError>;

    /// Returns the state of a worker's container.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    async fn state(&self, worker: &WorkerId) -> Result<ContainerState, RuntimeError>;

    /// Removes a worker's container, running or not, with all it wrote. One that is gone is a success.
    /// Errors: [`RuntimeError`]; reconciling tries again.
    async fn remove(&self, worker: &WorkerId) -> Result<(), RuntimeError>;

    /// Tells the cluster that a session has the worker, so that nothing that can wait ends it.
    /// Errors: [`RuntimeError`]; the caller tries again.
    async fn mark_leased(&self, _worker: &WorkerId) -> Result<(), RuntimeError> {
        Ok(())
    }

    /// Has the kernel page out the memory of a worker that waits, and returns how many bytes went. Dropping the future ends it.
    /// Errors: [`RuntimeError`]; `NotPagedOut` where the kernel does not, and on a cluster.
    async fn page_out(&self, _worker: &WorkerId) -> Result<u64, RuntimeError> {
        Err(RuntimeError::NotPagedOut("it is on another host".to_owned()))
    }

    /// Lists the workers' containers that carry this daemon's label, in whatever state.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    async fn list_containers(&self) -> Result<Vec<OwnedContainer>, RuntimeError>;

    /// Removes what workers of an earlier process, other than these, left in the data directory.
    fn forget_others(&self, _workers: &[OwnedContainer]) {}

    /// Returns the id of the image that `name` means now.
    /// Errors: [`RuntimeError::NoImage`] or [`RuntimeError::NoRegistry`] when there is none.
    async fn image_id(&self, name: &str) -> Result<String, RuntimeError>;

    /// Waits until this process alone owns the workers of its instance, whose data is in this directory.
    /// Errors: [`RuntimeError::NotOwned`] where waiting is pointless.
    async fn acquire_ownership(&self, _data_dir: &Path) -> Result<Ownership, RuntimeError> {
        Ok(Ownership::of_this_host())
    }

    /// Lists the nodes that workers may run on, beside this host.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    async fn nodes(&self) -> Result<Vec<NodeFacts>, RuntimeError> {
        Ok(Vec::new())
    }

    /// Takes a node out of use or into use again, and returns it as it is then. The caller replaces the workers of one that is
    /// drained, and then calls [`Self::finish_drain`].
    /// Errors: [`RuntimeError`]; `NodeName` or `NoNodes` where there is no such node.
    async fn order_node(&self, _name: &str, _order: NodeOrder) -> Result<NodeFacts, RuntimeError> {
        Err(RuntimeError::NoNodes)
    }

    /// Moves everything else off a node that is being drained, once no daemon has a worker there.
    /// Errors: [`RuntimeError`]; the next look tries again.
    async fn finish_drain(&self, _node: &NodeFacts) -> Result<(), RuntimeError> {
        Ok(())
    }

    /// Starts no workers of this image on this node for a while, because the agent of one there does not answer.
    async fn distrust_node(&self, _node: &str, _image: &str) {}

    /// Starts a container of the image on each node, and checks from inside whether workers would be isolated there.
    /// Errors: [`RuntimeError`]; `NoNodes` where there are no nodes.
    async fn check_nodes(&self, _image: &str, _engine: Engine) -> Result<Vec<NodeCheck>, RuntimeError> {
        Err(RuntimeError::NoNodes)
    }

    /// Has what is made from now on go with what this other instance owns, where a cluster knows such a thing: for a process that makes
    /// a few containers of its own, and may be killed before it has removed them.
    async fn belong_to(&self, _instance: &str) {}

    /// Starts nothing any more, and removes what looks at nodes. For a process that is to end at once.
    /// Errors: [`RuntimeError`]; something may be left.
    async fn wind_down(&self) -> Result<(), RuntimeError> {
        Ok(())
    }

    /// How long the runtime may take to notice that a worker's host is lost. While the worker's agent is out of reach for less,
    /// nobody knows whether the agent or the host has failed.
    fn notices_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Creates and starts a renderer's container. It runs on this host, wherever workers run, and ends with the connection that
    /// the pipes are; whoever reads from them limits the wait.
    /// Errors: [`RuntimeError`]; the caller removes what may have been created.
    async fn start_renderer(&self, renderer: &RendererId) -> Result<RendererPipes, RuntimeError>;

    /// Returns the state of a renderer's container.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    async fn renderer_state(&self, renderer: &RendererId) -> Result<ContainerState, RuntimeError>;

    /// Removes a renderer's container, running or not. One that is gone is a success.
    /// Errors: [`RuntimeError`]; the caller tries again.
    async fn remove_renderer(&self, renderer: &RendererId) -> Result<(), RuntimeError>;

    /// Lists the renderers of this instance that an earlier process left, running or not.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    async fn left_renderers(&self) -> Result<Vec<RendererId>, RuntimeError>;

    /// Whether the renderers' image is on this host.
    /// Errors: [`RuntimeError`] when the runtime cannot be asked.
    async fn has_renderer_image(&self) -> Result<bool, RuntimeError>;

    /// Returns what the cluster says of itself and of what this daemon may do there, for `warmpool doctor`.
    /// Errors: [`RuntimeError`]; `NoNodes` where the runtime asks nobody for permission.
    async fn cluster_facts(&self) -> Result<ClusterFacts, RuntimeError> {
        Err(RuntimeError::NoNodes)
    }

    /// Returns what the container engine of this host says of itself, for `warmpool doctor`.
    /// Errors: [`RuntimeError`] when the engine cannot be asked.
    async fn engine_facts(&self) -> Result<DockerFacts, RuntimeError>;
}
