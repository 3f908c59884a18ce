"""A view whose lines lead elsewhere: j and k choose one, Enter goes there."""

from __future__ import annotations

from textual import on

from kshunt.tui.actions.view_names import PARTITIONS
from kshunt.tui.grid.selectable_lines import SelectableLines
from kshunt.tui.tables.lines import Line
from kshunt.tui.views.table_screen import TableScreen
from kshunt.tui.views.view_screen import ViewScreen


class BoardScreen(ViewScreen):
    """A view with a board. Subclasses say its lines."""

    @property
    def board(self) -> SelectableLines:
        """The lines."""
        return self.query_one(SelectableLines)

    def lines(self, width: int, height: int) -> list[Line]:
        """What the board shows."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Ages are said although nothing arrives."""
        self.set_interval(1.0, self._show_lines)

    def update_view(self) -> None:
        """Show what the store holds; lines that are the same are not painted again."""
        super().update_view()
        self._show_lines()

    @on(SelectableLines.Resized)
    def _show_lines(self) -> None:
        # A timer may come while the screen is being taken down.
        if self.is_current_view and self.query(SelectableLines):
            self.show_boards()

    def show_boards(self) -> None:
        """Show the lines of every board in sight."""
        size = self.board.size
        if size.width and size.height:
            self.board.show(self.lines(size.width, size.height))

    def action_line(self, steps: int) -> None:
        """Choose another line."""
        self.board.move(steps)

    def action_back(self) -> None:
        """Choose nothing any more; else return."""
        if not self.board.leave():
            super().action_back()

    def action_filter(self) -> None:
        """Find replicas: the partitions have a row for each."""
        self.action_view(PARTITIONS)
        self.app.call_after_refresh(self._filter_partitions)

    def _filter_partitions(self) -> None:
        view = self.kshunt.view
        if isinstance(view, TableScreen):
            view.action_filter()

    @on(SelectableLines.Clicked)
    def _clicked(self, event: SelectableLines.Clicked) -> None:
        self.key_bar.say("")
        self.let_keys_go_to(event.lines)
        if event.again:
            self.action_go()

    def let_keys_go_to(self, lines: SelectableLines) -> None:
        """Keys go to these lines from here on; a view with one board has no others."""

    def action_go(self) -> None:
        """Go where the line leads."""
        from kshunt.tui.shell.navigation import go

        target = self.board.target
        if target is not None:
            go(self.kshunt, target)
        elif self.board.cursor_key is None:
            self.say("j and k choose a line, Enter goes to the place where you can fix it.")
        else:
            self.say("No view shows more of it; ! shows the whole sentence.")
