//! The window manager of a display: without one nobody minimises or maximises a window, and browsers that ask for it wait in
//! vain. It draws nothing, so that a window is as large outside as its browser has made it, and it takes no keys and no
//! clicks. What it knows is the part of the Extended Window Manager Hints that browsers use.

mod client;
pub(crate) mod kiosk;

use std::collections::HashMap;

use x11rb::connection::Connection;
use x11rb::errors::{ConnectError, ReplyOrIdError};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ConfigWindow, ConfigureRequestEvent, ConnectionExt as _,
    CreateWindowAux, EventMask, InputFocus, MapState, PropMode, Screen, StackMode, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use client::{Client, State, WindowRect};

x11rb::atom_manager! {
    /// The names that the manager and its clients share.
    Atoms:
    AtomsCookie {
        UTF8_STRING,
        WM_CHANGE_STATE,
        WM_PROTOCOLS,
        WM_STATE,
        WM_TAKE_FOCUS,
        _NET_ACTIVE_WINDOW,
        _NET_CLIENT_LIST,
        _NET_CURRENT_DESKTOP,
        _NET_FRAME_EXTENTS,
        _NET_NUMBER_OF_DESKTOPS,
        _NET_REQUEST_FRAME_EXTENTS,
        _NET_SUPPORTED,
        _NET_SUPPORTING_WM_CHECK,
        _NET_WM_NAME,
        _NET_WM_STATE,
        _NET_WM_STATE_FULLSCREEN,
        _NET_WM_STATE_HIDDEN,
        _NET_WM_STATE_MAXIMIZED_HORZ,
        _NET_WM_STATE_MAXIMIZED_VERT,
        _NET_WORKAREA,
        _WARMPOOL_KIOSK,
    }
}

/// The name that it goes by.
const NAME: &str = "warmpool";

/// `WM_STATE` of the Inter-Client Communication Conventions.
const NORMAL: u32 = 1;
const ICONIC: u32 = 3;

/// What a message wants of a state.
const REMOVE: u32 = 0;
const ADD: u32 = 1;

/// Why windows are not managed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WindowManagerError {
    #[error("no connection to the display: {0}")]
    Connect(#[from] ConnectError),
    #[error("the display does not answer: {0}")]
    Display(#[from] ReplyOrIdError),
}

macro_rules! from_x11 {
    ($($error:ident),*) => {
        $(impl From<x11rb::errors::$error> for WindowManagerError {
            fn from(error: x11rb::errors::$error) -> Self {
                Self::Display(error.into())
            }
        })*
    };
}
from_x11!(ConnectionError, ReplyError);

/// Manages the windows of this display from now on, for as long as there is one.
/// Errors: when it cannot begin.
pub(crate) fn start(display: &str) -> Result<(), WindowManagerError> {
    let mut manager = WindowManager::connect(display)?;
    std::thread::spawn(move || {
        // The display ends with its container.
        if let Err(error) = manager.run() {
            tracing::debug!(%error, "windows are no longer managed");
        }
    });
    Ok(())
}

struct WindowManager {
    display: RustConnection,
    screen: Screen,
    atoms: Atoms,
    clients: HashMap<Window, Client>,
    /// Managed windows, the one that was looked at last at the end.
    order: Vec<Window>,
    /// The height of windows' bars, where those are not to be seen.
    bars: Option<u16>,
}

impl WindowManager {
    fn connect(name: &str) -> Result<Self, WindowManagerError> {
        let (display, number) = x11rb::connect(Some(name))?;
        let screen = display.setup().roots[number].clone();
        let atoms = Atoms::new(&display)?.reply()?;
        let events = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY | EventMask::STRUCTURE_NOTIFY;
        let attributes = ChangeWindowAttributesAux::new().event_mask(events);
        display.change_window_attributes(screen.root, &attributes)?.check()?;
        let mut manager = Self { display, screen, atoms, clients: HashMap::new(), order: Vec::new(), bars: None };
        manager.announce()?;
        manager.adopt()?;
        Ok(manager)
    }

    /// Tells what is supported, as the hints want it.
    fn announce(&self) -> Result<(), WindowManagerError> {
        let (display, atoms, root) = (&self.display, &self.atoms, self.screen.root);
        let check = display.generate_id()?;
        let attributes = CreateWindowAux::new().override_redirect(1);
        display.create_window(0, check, root, -1, -1, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &attributes)?;
        for window in [root, check] {
            self.set(window, atoms._NET_SUPPORTING_WM_CHECK, AtomEnum::WINDOW, &[check])?;
        }
        display.change_property8(PropMode::REPLACE, check, atoms._NET_WM_NAME, atoms.UTF8_STRING, NAME.as_bytes())?;
        let supported = [
            atoms._NET_ACTIVE_WINDOW,
            atoms._NET_CLIENT_LIST,
            atoms._NET_FRAME_EXTENTS,
            atoms._NET_REQUEST_FRAME_EXTENTS,
            atoms._NET_SUPPORTING_WM_CHECK,
            atoms._NET_WM_NAME,
            atoms._NET_WM_STATE,
            atoms._NET_WM_STATE_FULLSCREEN,
            atoms._NET_WM_STATE_HIDDEN,
            atoms._NET_WM_STATE_MAXIMIZED_HORZ,
            atoms._NET_WM_STATE_MAXIMIZED_VERT,
            atoms._NET_WORKAREA,
        ];
        self.set(root, atoms._NET_SUPPORTED, AtomEnum::ATOM, &supported)?;
        for (name, value) in [(atoms._NET_NUMBER_OF_DESKTOPS, 1), (atoms._NET_CURRENT_DESKTOP, 0)] {
            self.set(root, name, AtomEnum::CARDINAL, &[value])?;
        }
        self.announce_size()?;
        Ok(display.flush()?)
    }

    /// Sets a property that is a list of numbers.
    fn set(&self, window: Window, name: u32, kind: impl Into<u32>, values: &[u32]) -> Result<(), WindowManagerError> {
        self.display.change_property32(PropMode::REPLACE, window, name, kind, values)?.ignore_error();
        Ok(())
    }

    fn announce_size(&self) -> Result<(), WindowManagerError> {
        let area = [0, 0, self.screen.width_in_pixels.into(), self.screen.height_in_pixels.into()];
        let (root, name) = (self.screen.root, self.atoms._NET_WORKAREA);
        self.set(root, name, AtomEnum::CARDINAL, &area)
    }

    /// Manages the windows that are there already.
    fn adopt(&mut self) -> Result<(), WindowManagerError> {
        let there = self.display.query_tree(self.screen.root)?.reply()?.children;
        for window in there {
            let attributes = self.display.get_window_attributes(window)?.reply();
            if attributes.is_ok_and(|found| !found.override_redirect && found.map_state == MapState::VIEWABLE) {
                self.show(window)?;
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), WindowManagerError> {
        loop {
            self.display.flush()?;
            let event = self.display.wait_for_event()?;
            match self.handle(event) {
                // A window may be gone before its event is read.
                Err(WindowManagerError::Display(ReplyOrIdError::X11Error(_))) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), WindowManagerError> {
        match event {
            Event::MapRequest(event) => self.show(event.window),
            Event::ConfigureRequest(event) => self.configure(&event),
            Event::ConfigureNotify(event) if event.window == self.screen.root => {
                (self.screen.width_in_pixels, self.screen.height_in_pixels) = (event.width, event.height);
                self.announce_size()?;
                let filling: Vec<Window> =
                    self.clients.iter().filter(|(_, client)| client.state.fills()).map(|(window, _)| *window).collect();
                filling.into_iter().try_for_each(|window| self.place(window))
            }
            // Where its browser takes a window back, and not where this manager has hidden it.
            Event::UnmapNotify(event) if event.event == self.screen.root => match self.clients.get(&event.window) {
                Some(client) if !client.state.minimized => self.forget(event.window),
                _ => Ok(()),
            },
            Event::DestroyNotify(event) => self.forget(event.window),
            Event::ClientMessage(event) => self.obey(&event),
            _ => Ok(()),
        }
    }

    /// Shows a window and gives it the focus. One that was minimised is as it was before.
    fn show(&mut self, window: Window) -> Result<(), WindowManagerError> {
        if !self.clients.contains_key(&window) {
            let found = self.display.get_geometry(window)?.reply()?;
            let place = WindowRect { x: found.x, y: found.y, width: found.width, height: found.height };
            // A browser may have said beforehand how its window is to begin.
            let wanted = self.wanted_state(window)?;
            let is_dialog = self.is_dialog(window)?;
            self.clients.insert(window, Client { state: wanted, normal: place, is_dialog });
            self.order.push(window);
            self.list()?;
        }
        if let Some(client) = self.clients.get_mut(&window) {
            client.state.minimized = false;
        }
        self.tell_state(window)?;
        self.place(window)?;
        self.display.map_window(window)?;
        self.focus(window)
    }

    fn wanted_state(&self, window: Window) -> Result<State, WindowManagerError> {
        let atoms = &self.atoms;
        let found = self.display.get_property(false, window, atoms._NET_WM_STATE, AtomEnum::ATOM, 0, 32)?.reply()?;
        let names: Vec<u32> = found.value32().into_iter().flatten().collect();
        let has = |name: u32| names.contains(&name);
        Ok(State {
            minimized: false,
            fullscreen: has(atoms._NET_WM_STATE_FULLSCREEN),
            maximized_horizontally: has(atoms._NET_WM_STATE_MAXIMIZED_HORZ),
            maximized_vertically: has(atoms._NET_WM_STATE_MAXIMIZED_VERT),
        })
    }

    /// What a browser asks of its window's place is granted as it is, also beyond the edges.
    fn configure(&mut self, event: &ConfigureRequestEvent) -> Result<(), WindowManagerError> {
        let Some(client) = self.clients.get_mut(&event.window) else {
            let wanted = x11rb::protocol::xproto::ConfigureWindowAux::from_configure_request(event);
            self.display.configure_window(event.window, &wanted)?.ignore_error();
            return Ok(());
        };
        let asks = |what: ConfigWindow| event.value_mask.contains(what);
        let normal = &mut client.normal;
        for (what, value, side) in
            [(ConfigWindow::X, event.x, &mut normal.x), (ConfigWindow::Y, event.y, &mut normal.y)]
        {
            if asks(what) {
                *side = value;
            }
        }
        for (what, value, side) in [
            (ConfigWindow::WIDTH, event.width, &mut normal.width),
            (ConfigWindow::HEIGHT, event.height, &mut normal.height),
        ] {
            if asks(what) {
                *side = value;
            }
        }
        self.place(event.window)?;
        if asks(ConfigWindow::STACK_MODE) && event.stack_mode == StackMode::ABOVE {
            self.raise(event.window)?;
        }
        Ok(())
    }

    /// Puts a window where its state wants it, and tells it so in any case: browsers wait for that.
    fn place(&self, window: Window) -> Result<(), WindowManagerError> {
        let Some(client) = self.clients.get(&window) else { return Ok(()) };
        let screen =
            WindowRect { x: 0, y: 0, width: self.screen.width_in_pixels, height: self.screen.height_in_pixels };
        let place = client.place(screen, self.bars);
        self.display.configure_window(window, &place.as_request())?.ignore_error();
        self.display.send_event(false, window, EventMask::STRUCTURE_NOTIFY, place.as_notice(window))?.ignore_error();
        Ok(())
    }

    fn raise(&self, window: Window) -> Result<(), WindowManagerError> {
        let above = x11rb::protocol::xproto::ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
        self.display.configure_window(window, &above)?.ignore_error();
        Ok(())
    }

    fn focus(&mut self, window: Window) -> Result<(), WindowManagerError> {
        self.raise(window)?;
        self.display.set_input_focus(InputFocus::POINTER_ROOT, window, x11rb::CURRENT_TIME)?.ignore_error();
        let take = [self.atoms.WM_TAKE_FOCUS, x11rb::CURRENT_TIME, 0, 0, 0];
        let take = ClientMessageEvent::new(32, window, self.atoms.WM_PROTOCOLS, take);
        self.display.send_event(false, window, EventMask::NO_EVENT, take)?.ignore_error();
        self.order.retain(|other| *other != window);
        self.order.push(window);
        self.tell_active(window)
    }

    fn tell_active(&self, window: Window) -> Result<(), WindowManagerError> {
        let (root, name) = (self.screen.root, self.atoms._NET_ACTIVE_WINDOW);
        self.set(root, name, AtomEnum::WINDOW, &[window])
    }

    /// After a window has gone: the one before it is looked at.
    fn focus_last(&mut self) -> Result<(), WindowManagerError> {
        let shown = |window: &&Window| self.clients.get(*window).is_some_and(|client| !client.state.minimized);
        match self.order.iter().rev().find(shown).copied() {
            Some(window) => self.focus(window),
            None => self.tell_active(x11rb::NONE),
        }
    }

    fn forget(&mut self, window: Window) -> Result<(), WindowManagerError> {
        if self.clients.remove(&window).is_none() {
            return Ok(());
        }
        self.order.retain(|other| *other != window);
        // A window that its browser only hides begins anew when it is shown again.
        self.display.delete_property(window, self.atoms.WM_STATE)?.ignore_error();
        self.display.delete_property(window, self.atoms._NET_WM_STATE)?.ignore_error();
        self.list()?;
        self.focus_last()
    }

    fn list(&self) -> Result<(), WindowManagerError> {
        let (root, name) = (self.screen.root, self.atoms._NET_CLIENT_LIST);
        let windows = &self.order;
        self.set(root, name, AtomEnum::WINDOW, windows)
    }

    /// What browsers ask for by messages to the root.
    fn obey(&mut self, event: &ClientMessageEvent) -> Result<(), WindowManagerError> {
        let (window, atoms, data) = (event.window, self.atoms, event.data.as_data32());
        if event.type_ == atoms._NET_REQUEST_FRAME_EXTENTS {
            return self.tell_frame(window);
        }
        if event.type_ == atoms._WARMPOOL_KIOSK {
            return self.begin_kiosk(data);
        }
        let Some(client) = self.clients.get_mut(&window) else { return Ok(()) };
        if event.type_ == atoms._NET_ACTIVE_WINDOW {
            return self.show(window);
        }
        if event.type_ == atoms.WM_CHANGE_STATE && data[0] == ICONIC {
            client.state.minimized = true;
            self.tell_state(window)?;
            self.display.unmap_window(window)?.ignore_error();
            return self.focus_last();
        }
        if event.type_ == atoms._NET_WM_STATE {
            for name in [data[1], data[2]] {
                let state = &mut client.state;
                let flag = match name {
                    name if name == atoms._NET_WM_STATE_FULLSCREEN => &mut state.fullscreen,
                    name if name == atoms._NET_WM_STATE_MAXIMIZED_HORZ => &mut state.maximized_horizontally,
                    name if name == atoms._NET_WM_STATE_MAXIMIZED_VERT => &mut state.maximized_vertically,
                    _ => continue,
                };
                *flag = match data[0] {
                    REMOVE => false,
                    ADD => true,
                    _ => !*flag,
                };
            }
            self.tell_state(window)?;
            return self.place(window);
        }
        Ok(())
    }

    /// Nothing is around a window.
    fn tell_frame(&self, window: Window) -> Result<(), WindowManagerError> {
        let name = self.atoms._NET_FRAME_EXTENTS;
        let none = [0; 4];
        self.set(window, name, AtomEnum::CARDINAL, &none)
    }

    fn tell_state(&self, window: Window) -> Result<(), WindowManagerError> {
        let Some(client) = self.clients.get(&window) else { return Ok(()) };
        let (atoms, state) = (&self.atoms, client.state);
        let icccm = [if state.minimized { ICONIC } else { NORMAL }, x11rb::NONE];
        self.set(window, atoms.WM_STATE, atoms.WM_STATE, &icccm)?;
        let names = [
            (state.minimized, atoms._NET_WM_STATE_HIDDEN),
            (state.fullscreen, atoms._NET_WM_STATE_FULLSCREEN),
            (state.maximized_horizontally, atoms._NET_WM_STATE_MAXIMIZED_HORZ),
            (state.maximized_vertically, atoms._NET_WM_STATE_MAXIMIZED_VERT),
        ];
        let names: Vec<u32> = names.into_iter().filter_map(|(is, name)| is.then_some(name)).collect();
        self.set(window, atoms._NET_WM_STATE, AtomEnum::ATOM, &names)?;
        self.tell_frame(window)
    }
}
