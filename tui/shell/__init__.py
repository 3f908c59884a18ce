"""The application as dialogs and views know it: the protocol, navigation, themes."""
