//! A window that is managed: how it is, and where it belongs.

use x11rb::protocol::xproto::{CONFIGURE_NOTIFY_EVENT, ConfigureNotifyEvent, ConfigureWindowAux, Window};

/// Where a window is, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowRect {
    pub(super) x: i16,
    pub(super) y: i16,
    pub(super) width: u16,
    pub(super) height: u16,
}

impl WindowRect {
    pub(super) fn as_request(self) -> ConfigureWindowAux {
        ConfigureWindowAux::new()
            .x(i32::from(self.x))
            .y(i32::from(self.y))
            .width(u32::from(self.width))
            .height(u32::from(self.height))
            .border_width(0)
    }

    pub(super) const fn as_notice(self, window: Window) -> ConfigureNotifyEvent {
        ConfigureNotifyEvent {
            response_type: CONFIGURE_NOTIFY_EVENT,
            sequence: 0,
            event: window,
            window,
            above_sibling: x11rb::NONE,
            x: self.x,
            y: self.y,
            width: self.width,
            height: self.height,
            border_width: 0,
            override_redirect: false,
        }
    }
}

/// How a window is. Browsers set these one by one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) minimized: bool,
    pub(super) fullscreen: bool,
    pub(super) maximized_horizontally: bool,
    pub(super) maximized_vertically: bool,
}

impl State {
    /// Whether its place depends on the size of the screen.
    pub(super) const fn fills(self) -> bool {
        self.fullscreen || self.maximized_horizontally || self.maximized_vertically
    }
}

/// A managed window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    pub(super) state: State,
    /// Where it is when nothing makes it larger.
    pub(super) normal: WindowRect,
    /// Whether it belongs to another window.
    pub(super) is_dialog: bool,
}

impl Client {
    /// Where it belongs on this screen. Where there are `bars`, they are above it.
    pub(super) fn place(&self, screen: WindowRect, bars: Option<u16>) -> WindowRect {
        let (state, mut place) = (self.state, self.normal);
        if let Some(bars) = bars.filter(|_| !state.fullscreen && !self.is_dialog) {
            let above = i16::try_from(bars).unwrap_or_default();
            return WindowRect { y: screen.y - above, height: screen.height.saturating_add(bars), ..screen };
        }
        if state.fullscreen || state.maximized_horizontally {
            (place.x, place.width) = (screen.x, screen.width);
        }
        if state.fullscreen || state.maximized_vertically {
            (place.y, place.height) = (screen.y, screen.height);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_large_as_its_state_wants() {
        let screen = WindowRect { x: 0, y: 0, width: 1280, height: 800 };
        let normal = WindowRect { x: -8, y: 50, width: 700, height: 500 };
        let place = |state| Client { state, normal, is_dialog: false }.place(screen, None);
        assert_eq!(place(State::default()), normal);
        assert_eq!(place(State { minimized: true, ..State::default() }), normal);
        assert_eq!(place(State { fullscreen: true, ..State::default() }), screen);
        let both = State { maximized_horizontally: true, maximized_vertically: true, ..State::default() };
        assert_eq!(place(both), screen);
        let one = State { maximized_vertically: true, ..State::default() };
        assert_eq!(place(one), WindowRect { y: 0, height: 800, ..normal });
    }

    #[test]
    fn bars_are_above_the_screen() {
        let screen = WindowRect { x: 0, y: 0, width: 1280, height: 720 };
        let normal = WindowRect { x: 20, y: 30, width: 300, height: 200 };
        let place = |state, is_dialog| Client { state, normal, is_dialog }.place(screen, Some(87));
        assert_eq!(place(State::default(), false), WindowRect { y: -87, height: 807, ..screen });
        assert_eq!(place(State::default(), true), normal);
        assert_eq!(place(State { fullscreen: true, ..State::default() }, false), screen);
    }
}
