"""Which cluster a backend serves, its brokers, and the backend's part among others."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ClusterModel(BaseModel):
    """Which cluster a backend serves, and how fresh its picture is."""

    cluster_id: str
    bootstrap_servers: str
    controller: int
    brokers: int
    topics: int
    replicas: int
    moving_partitions: int
    sampled_ms: int
    backend_pid: int
    backend_version: str


class BrokerModel(BaseModel):
    """A broker."""

    id: int
    host: str
    port: int
    rack: str | None
    answered_ms: int | None
    stale: bool
    problem: str


class BrokersModel(BaseModel):
    """The brokers."""

    version: int
    brokers: list[BrokerModel]


class ActorModel(BaseModel):
    """The backend that acts."""

    backend: str
    host: str
    address: str
    started_ms: int


class UnreadableModel(BaseModel):
    """An entry of the journal that is neither acted upon nor written over."""

    key: str
    why: str
    detail: str


class NotOfferedModel(BaseModel):
    """What cannot be done on this cluster by the way that this backend reaches it."""

    what: str
    why: str


class BackendModel(BaseModel):
    """This backend's part among those of its cluster."""

    backend: str
    duty: str = Field(description="`act`: it changes the cluster; `idle`: nobody has to")
    acting: ActorModel | None
    journal_topic: str = Field(description="the journal's topic; through ZooKeeper, its znode")
    remarks: list[str]
    unreadable: list[UnreadableModel]
    not_offered: list[NotOfferedModel] = Field(description="through ZooKeeper; else empty")
