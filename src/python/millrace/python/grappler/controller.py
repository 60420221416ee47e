# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Controllers, which place the operations of an item on the devices of a cluster."""
from __future__ import annotations

from typing import Any


class Controller:
    """Base of classes that choose devices for operations.

    Args:
      item: the Item.
      cluster: the Cluster.
    """

    def __init__(self, item: Any, cluster: Any) -> None:
        self.item = item
        self._node = dict(enumerate(item.IdentifyImportantOps(sort_topologically=True)))
        self.num_ops = len(self._node)
        self.colocation_constraints = item.GetColocationGroups()
        self.op_properties = item.GetOpProperties()
        self.important_ops = [self._node[i] for i in range(self.num_ops)]
        self.devices = [device.name for device in cluster.ListDevices()]
        self.num_devices = len(self.devices)

    @property
    def input_graph_def(self) -> Any:
        """The GraphDef of the item."""
        return self.item.metagraph.graph_def

    def build_controller(self) -> Any:
        """Builds the learned model, in a subclass."""
        raise NotImplementedError("build_controller")

    def generate_placement(self, sess: Any) -> Any:
        """Numbers of devices, one for each group of operations, in a subclass."""
        raise NotImplementedError("generate_placement")

    def eval_placement(self, sess: Any, reward: float) -> Any:
        """Learns from the reward of a placement, in a subclass."""
        raise NotImplementedError("eval_placement")

    def eval_grouping(self, sess: Any) -> Any:
        """Numbers of groups, one for each operation, in a subclass."""
        raise NotImplementedError("eval_grouping")
