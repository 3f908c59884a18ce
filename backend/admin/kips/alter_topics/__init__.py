"""AlterTopics of KIP-179's early draft: the RPC, or emulated."""
