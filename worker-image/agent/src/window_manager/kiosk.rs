//! Pages without their browser's own bars: the screen is as large as a page, and windows reach beyond its upper edge by their
//! bars. Nothing else hides them everywhere: Chromium heeds no fullscreen that it has not asked for itself, and shows its bar about
//! automation even then.

use x11rb::connection::Connection as _;
use x11rb::protocol::randr::{self, ConnectionExt as _, ModeInfo, Rotation};
use x11rb::protocol::xproto::{AtomEnum, ClientMessageEvent, ConnectionExt as _, EventMask, Window};

use warmpool_protocol::Size;

use super::{Atoms, WindowManager, WindowManagerError};

/// What a screen without glass says of its size, in pixels a millimetre: 96 an inch.
const PIXELS_PER_MM: f64 = 96.0 / 25.4;

/// Asks the window manager of this display to begin, with pages of that size below bars of that height.
/// Errors: when the display does not answer.
pub(crate) fn begin(display: &str, page: Size, bars: u32) -> Result<(), WindowManagerError> {
    let (display, number) = x11rb::connect(Some(display))?;
    let root = display.setup().roots[number].root;
    let atoms = Atoms::new(&display)?.reply()?;
    let event = ClientMessageEvent::new(32, root, atoms._WARMPOOL_KIOSK, [page.width, page.height, bars, 0, 0]);
    display.send_event(false, root, EventMask::SUBSTRUCTURE_REDIRECT, event)?.check()?;
    Ok(())
}

impl WindowManager {
    pub(super) fn begin_kiosk(&mut self, [width, height, bars, ..]: [u32; 5]) -> Result<(), WindowManagerError> {
        let (Ok(width), Ok(height), Ok(bars)) = (width.try_into(), height.try_into(), bars.try_into()) else {
            return Ok(());
        };
        self.bars = Some(bars);
        if (self.screen.width_in_pixels, self.screen.height_in_pixels) != (width, height) {
            self.resize(width, height)?;
            (self.screen.width_in_pixels, self.screen.height_in_pixels) = (width, height);
            self.announce_size()?;
        }
        self.order.iter().try_for_each(|window| self.place(*window))
    }

    /// Whether a window belongs to another one.
    pub(super) fn is_dialog(&self, window: Window) -> Result<bool, WindowManagerError> {
        let owner =
            self.display.get_property(false, window, AtomEnum::WM_TRANSIENT_FOR, AtomEnum::WINDOW, 0, 1)?.reply()?;
        Ok(owner.value32().and_then(|mut owner| owner.next()).is_some_and(|owner| owner != x11rb::NONE))
    }

    /// Gives the screen another size.
    fn resize(&self, width: u16, height: u16) -> Result<(), WindowManagerError> {
        let (display, root) = (&self.display, self.screen.root);
        let found = display.randr_get_screen_resources_current(root)?.reply()?;
        let (Some(&output), Some(&crtc)) = (found.outputs.first(), found.crtcs.first()) else { return Ok(()) };
        let there = found.modes.iter().find(|mode| (mode.width, mode.height) == (width, height));
        let mode = match there {
            Some(mode) => mode.id,
            None => {
                let name = format!("{width}x{height}");
                let name_len = u16::try_from(name.len()).unwrap_or_default();
                let mode = ModeInfo { width, height, name_len, ..ModeInfo::default() };
                display.randr_create_mode(root, mode, name.as_bytes())?.reply()?.mode
            }
        };
        display.randr_add_output_mode(output, mode)?.ignore_error();
        let set = |mode, outputs: &[randr::Output]| {
            let time = (x11rb::CURRENT_TIME, found.config_timestamp);
            display.randr_set_crtc_config(crtc, time.0, time.1, 0, 0, mode, Rotation::ROTATE0, outputs)
        };
        // What is shown never reaches beyond the screen, not even for a moment.
        set(x11rb::NONE, &[])?.reply()?;
        let [wide, high] = [width, height].map(|side| (f64::from(side) / PIXELS_PER_MM) as u32);
        display.randr_set_screen_size(root, width, height, wide, high)?.check()?;
        set(mode, &[output])?.reply()?;
        Ok(())
    }
}
