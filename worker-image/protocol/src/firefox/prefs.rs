//! Firefox's preferences: what a client may do with each of them.
//!
//! The table has whole names, and beginnings of names, which end with an asterisk. The longest that fits decides.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

/// What becomes of a preference that a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It changes what pages and their user see, and nothing around them.
    Free,
    /// It is left out: clients and Firefox itself set it out of habit, and here it is decided already.
    Idle,
    /// It would take a page out of its process, give a client the browser's own rights, run a program, or lead around the
    /// worker's one way out.
    Refused,
    /// Nobody has judged it. It takes effect where the operator allows it.
    Unknown,
}

/// Preferences of the class [`Class::Free`].
const FREE: &str = "
    accessibility.* alerts.* apz.* beacon.* bidi.* browser.aboutConfig.* browser.aboutHomeSnippets.*
    browser.aboutwelcome.* browser.active_color* browser.altClickSave browser.anchor_color* browser.autofocus
    browser.backspace_action browser.bookmarks.* browser.cache.* browser.chrome.* browser.compactmode.*
    browser.contentHandlers.* browser.contentblocking.* browser.crashReports.* browser.ctrlTab.*
    browser.customizemode.* browser.discovery.* browser.display.* browser.dom.* browser.download.* browser.eme.*
    browser.enable_* browser.engagement.* browser.firefox-view.* browser.fixup.* browser.formautofill.*
    browser.formfill.* browser.fullscreen.* browser.gesture.* browser.helperApps.alwaysAsk.force
    browser.helperApps.deleteTempFileOnExit browser.helperApps.neverAsk.saveToDisk
    browser.helperApps.showOpenOption* browser.history* browser.http.* browser.laterrun.* browser.link.*
    browser.low_commit_* browser.menu.* browser.messaging-system.* browser.meta_refresh_* browser.migrat*
    browser.ml.* browser.navigation.* browser.newtab.* browser.newtabpage.* browser.offline
    browser.opaqueResponseBlocking* browser.pageActions.* browser.pagethumbnails.* browser.places.*
    browser.pocket.* browser.popups.* browser.preferences.* browser.preonboarding.* browser.privacySegmentation.*
    browser.privatebrowsing.* browser.promo.* browser.protections_panel.* browser.proton.* browser.quitShortcut.*
    browser.reader.* browser.region.* browser.rights.* browser.safebrowsing.* browser.search.*
    browser.selfsupport.* browser.send_pings* browser.sessionhistory.* browser.sessionstore.* browser.shell.*
    browser.shopping.* browser.showQuitWarning browser.slowStartup.* browser.snippets.* browser.spin_cursor_*
    browser.ssl_override_behavior browser.startup.* browser.tabs.* browser.taskbar.* browser.theme.*
    browser.toolbars.* browser.topsites.* browser.touchmode.* browser.translation.* browser.translations.*
    browser.triple_click_* browser.uiCustomization.* browser.uidensity browser.underline_anchors browser.urlbar.*
    browser.usedOnWindows10* browser.user-display.* browser.viewport.* browser.visited_color browser.vpn_promo.*
    browser.warnOnQuit* browser.xul.error_pages.* browser.zoom.* canvas.* captchadetection.* captivedetect.*
    clipboard.* content.* cookiebanners.* datareporting.* device.* devtools.browserconsole.*
    devtools.cache.disabled devtools.command-button-* devtools.console.* devtools.debugger.*
    devtools.defaultColorUnit devtools.devedition.* devtools.editor.* devtools.errorconsole.* devtools.everOpened
    devtools.f12_enabled devtools.inspector.* devtools.jsonview.* devtools.markup.* devtools.netmonitor.*
    devtools.performance.* devtools.responsive.* devtools.screenshot.* devtools.selfxss.* devtools.source-map.*
    devtools.styleeditor.* devtools.theme devtools.toolbox.* devtools.toolsidebar-* devtools.webconsole.*
    docshell.* dom.* editor.* extensions.InstallTrigger* extensions.activeThemeID
    extensions.allow-non-mpc-extensions extensions.allowPrivateBrowsingByDefault extensions.autoDisableScopes
    extensions.background.* extensions.blocklist.* extensions.browser_style_* extensions.checkCompatibility*
    extensions.checkUpdateSecurity extensions.dnr.* extensions.enabledScopes extensions.eventPages.*
    extensions.formautofill.* extensions.getAddons.* extensions.htmlaboutaddons.* extensions.install.*
    extensions.installDistroAddons extensions.logging.* extensions.manifestV3.*
    extensions.openPopupWithoutUserGesture.* extensions.originControls.* extensions.pictureinpicture.*
    extensions.pocket.* extensions.postDownloadThirdPartyPrompt extensions.quarantined*
    extensions.recommendations.* extensions.screenshots.* extensions.shownSelectionUI
    extensions.strictCompatibility extensions.ui.* extensions.unifiedExtensions.* extensions.update.*
    extensions.userScripts.* extensions.webcompat* extensions.webextensions.ExtensionStorageIDB.*
    extensions.webextensions.addons-restricted-domains@mozilla.com.disabled
    extensions.webextensions.background-delayed-startup extensions.webextensions.enablePerformanceCounters
    extensions.webextensions.keepStorageOnUninstall extensions.webextensions.keepUuidOnUninstall
    extensions.webextensions.restrictedDomains extensions.webextensions.tabhide.* extensions.webextensions.uuids
    extensions.webextensions.warnings-as-errors findbar.* focusmanager.* font.* full-screen-api.*
    general.appname.override general.appversion.override general.autoScroll general.autoscroll.*
    general.buildID.override general.oscpu.override general.platform.override general.smoothScroll*
    general.useragent.* general.warnOnAboutConfig geo.* gestures.* gfx.* gl.* identity.* idle.* image.*
    image_cache_* intl.* javascript.enabled javascript.options.* keyword.* layers.acceleration.* layout.*
    lightweightThemes.* mathml.* media.aboutwebrtc.* media.audio* media.autoplay.* media.av1.* media.block-*
    media.cache_* media.decoder-doctor.* media.default_* media.devices.* media.eme.* media.encoder.*
    media.ffmpeg.* media.ffvpx.* media.getdisplaymedia.* media.getusermedia.* media.gmp-gmpopenh264.*
    media.gmp-provider.enabled media.gmp-widevinecdm.* media.hardware-video-decoding.* media.hardwaremediakeys.*
    media.hls.* media.mediacapabilities.* media.mediacontrol.* media.mediasource.* media.memory_* media.mp4.*
    media.navigator.* media.ogg.* media.ondevicechange.* media.opus.* media.peerconnection.* media.playback.*
    media.recorder.* media.sanity-test.* media.seekToNextFrame.* media.setsinkid.* media.suspend-* media.track.*
    media.video-* media.video_* media.videocontrols.* media.volume_scale media.wave.* media.webm.* media.webrtc.*
    media.webspeech.* media.webvtt.* memory.* messaging-system.* middlemouse.* mousewheel.* narrate.* network.IDN*
    network.auth.subresource-* network.automatic-ntlm-auth.* network.buffer.* network.cache.*
    network.captive-portal-service.* network.connectivity-service.* network.cookie.* network.cookieJarSettings.*
    network.cors_preflight.* network.early-hints.* network.fetchpriority.* network.http.* network.lna.*
    network.localhost.* network.manage-offline-status network.negotiate-auth.* network.notify.*
    network.predictor.* network.prefetch-next network.preload* network.standard-url.*
    network.stricttransportsecurity.* network.tcp.* network.url.* network.warnOnAboutNetworking
    network.websocket.* nglayout.* notification.* offline-apps.* page.* pdfjs.* permissions.default.*
    permissions.delegation.* permissions.desktop-notification.* permissions.fullscreen.* permissions.isolateBy.*
    places.* plain_text.* pointer-lock-api.* print.always_print_silent print.more-settings.open
    print.print_bgcolor print.print_bgimages print.print_footer* print.print_header* print.print_in_color
    print.print_margin_* print.print_orientation print.print_paper_* print.print_scaling print.print_shrink_to_fit
    print.print_to_file print.print_to_filename print.printer_Mozilla_Save_to_PDF.* print.save_as_pdf.*
    print.save_print_settings print.show_print_progress print.tab_modal.enabled print_printer privacy.* prompts.*
    reader.* screenshots.* security.OCSP.* security.cert_pinning.* security.certerrors.* security.csp.*
    security.data_uri.* security.default_personal_cert security.dialog_enable_delay security.disable_button.*
    security.enterprise_roots.* security.external_protocol_requires_permission security.family_safety.mode
    security.fileuri.* security.identityblock.* security.identitypopup.* security.insecure_*
    security.mixed_content.* security.notification_enable_delay security.pki.*
    security.remember_cert_checkbox_default_setting security.remote_settings.* security.ssl.* security.ssl3.*
    security.sslerr.* security.tls.* security.tls13.* security.warn_* security.webauth.* security.webauthn.*
    security.xfocsp.* services.sync.* sidebar.* signon.* startup.* svg.* telemetry.* termsofuse.* threads.*
    toolkit.cosmeticAnimations.* toolkit.coverage.* toolkit.legacyUserProfileCustomizations.stylesheets
    toolkit.scrollbox.* toolkit.startup.* toolkit.tabbox.* toolkit.telemetry.* trailhead.* ui.* urlclassifier.*
    view_source.syntax_highlight view_source.tab_size view_source.wrap_long_lines webgl.* widget.chrome.*
    widget.content.* widget.gtk.* widget.non-native-theme.* widget.windows.* xpinstall.enabled
    xpinstall.signatures.required xpinstall.whitelist.* zoom.*
";

/// Preferences of the class [`Class::Idle`].
const IDLE: &str = "
    app.* browser.EULA.* browser.backup.* browser.displayedE10SNotice browser.helperApps.neverAsk.openFile
    browser.policies.applied browser.policies.runOnce* browser.tabs.remote.unloadDelayMs browser.uitour.*
    doh-rollout.* dom.ipc.plugins.* dom.ipc.processPriorityManager.* dom.ipc.reportProcessHangs
    extensions.hotfix.* extensions.systemAddon* hangmonitor.* media.gmp-manager.* network.dns.*
    network.http.http3.* network.http.max-persistent-connections-per-proxy network.protocol-handler.*
    network.sntp.pools network.trr.* nimbus.* plugin.* plugins.* remote.active-protocols
    remote.prefs.recommended.applied security.sandbox.content.tempDirSuffix security.sandbox.plugin.tempDirSuffix
    services.settings.* toolkit.crashreporter.* toolkit.networkmanager.disable useAutomationExtension webdriver_*
";

/// Preferences of the class [`Class::Refused`].
const REFUSED: &str = "
    autoadmin.* browser.chromeURL browser.policies.* browser.tabs.remote.* capability.* devtools.aboutdebugging.*
    devtools.browsertoolbox.* devtools.chrome.* devtools.debugger.chrome-* devtools.debugger.force-local
    devtools.debugger.prompt-connection devtools.debugger.remote-* dom.filesystem.pathcheck.* dom.ipc.*
    dom.security.skip_* extensions.experiments.* extensions.langpacks.* extensions.legacy.* extensions.webapi.*
    extensions.webextensions.protocol.remote extensions.webextensions.remote fission.* general.config.* helpers.*
    layers.gpu-process.* marionette.* media.gmp.* media.peerconnection.ice.proxy_only* media.rdd-process.*
    media.utility-process.* network.gio.* network.negotiate-auth.gsslib network.negotiate-auth.using-native-gsslib
    network.process.* network.proxy.* remote.* security.allow_* security.osclientcerts.* security.sandbox.*
    security.turn_off_all_security* security.xpconnect.* signed.* toolkit.defaultChromeURI toolkit.policies.*
    toolkit.singletonWindowType view_source.editor.*
";

/// All of them, for a look-up.
static CLASSES: LazyLock<HashMap<&str, Class>> = LazyLock::new(|| {
    let lists = [(FREE, Class::Free), (IDLE, Class::Idle), (REFUSED, Class::Refused)];
    lists.into_iter().flat_map(|(list, class)| list.split_whitespace().map(move |name| (name, class))).collect()
});

/// Every beginning of a name that stands in the table, without its asterisk.
static BEGINNINGS: LazyLock<HashMap<&str, Class>> =
    LazyLock::new(|| CLASSES.iter().filter_map(|(name, class)| Some((name.strip_suffix('*')?, *class))).collect());

/// The longest name that a client may send, in bytes.
const MAX_NAME: usize = 256;

/// The class of a preference by its name. `allowed` names what the operator allows besides; each name stands for all below it.
#[must_use]
pub fn class(name: &str, allowed: &[String]) -> Class {
    if let Some(class) = CLASSES.get(name) {
        return *class;
    }
    let mut beginnings = (1..=name.len()).rev().filter_map(|length| name.get(..length));
    if let Some(class) = beginnings.find_map(|beginning| BEGINNINGS.get(beginning)) {
        return *class;
    }
    let is_below = |above: &String| name.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('.'));
    if allowed.iter().any(|allowed| allowed == name || is_below(allowed)) { Class::Free } else { Class::Unknown }
}

/// Whether the operator may allow what has this name: no preference has it that would weaken the fence.
#[must_use]
pub fn may_be_allowed(name: &str) -> bool {
    is_name(name) && !name.ends_with(['.', '*']) && class(name, &[]) != Class::Refused
}

/// Whether a text is what Firefox calls a preference, and the same text on every way there: some of them cut a name at a
/// zero, and letters to eight bits.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a preference can have the value: true or false, a text, or a whole number of 32 bits.
#[must_use]
pub fn is_value(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::String(text) => !text.contains('\0'),
        Value::Number(number) => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_says_one_thing_of_a_name() {
        let all = [FREE, IDLE, super::REFUSED].map(|list| list.split_whitespace().count());
        assert_eq!(all.iter().sum::<usize>(), CLASSES.len());
        // An asterisk alone would fit everything.
        assert!(CLASSES.keys().all(|name| name.len() > 2 && is_name(name)));
    }

    /// The names that were tried, each of which led out of the fence or weakened it.
    const TRIED: [&str; 26] = [
        "autoadmin.global_config_url",
        "browser.policies.alternatePath",
        "browser.tabs.remote.autostart",
        "capability.policy.policynames",
        "devtools.chrome.enabled",
        "devtools.debugger.remote-enabled",
        "dom.ipc.processCount",
        "dom.ipc.validatePrincipal.validateSiteLoaded",
        "extensions.experiments.enabled",
        "extensions.webapi.testing",
        "extensions.webextensions.remote",
        "fission.autostart",
        "general.config.filename",
        "helpers.private_mailcap_file",
        "marionette.port",
        "media.gmp.insecure.allow",
        "media.peerconnection.ice.proxy_only",
        "network.negotiate-auth.gsslib",
        "network.proxy.socks_port",
        "network.proxy.type",
        "remote.experimental.enabled",
        "security.allow_unsafe_parent_loads",
        "security.sandbox.content.level",
        "security.sandbox.content.write_path_whitelist",
        "security.turn_off_all_security_so_that_viruses_can_take_over_this_computer",
        "view_source.editor.path",
    ];

    #[test]
    fn what_touches_the_fence_is_refused_and_nobody_can_allow_it() {
        let allowed = ["security", "network.proxy.type"].map(str::to_owned);
        for name in TRIED {
            assert!(!may_be_allowed(name), "{name}");
            assert_eq!(class(name, &[]), Class::Refused, "{name}");
            assert_eq!(class(name, &allowed), Class::Refused, "{name}");
        }
    }

    #[test]
    fn what_clients_send_takes_effect_or_is_left_out_without_a_word() {
        for name in [
            // Selenium, its users, SeleniumBase, WebdriverIO and the W3C's tests.
            "browser.download.dir",
            "browser.download.folderList",
            "browser.helperApps.neverAsk.saveToDisk",
            "browser.startup.homepage",
            "dom.battery.enabled",
            "dom.disable_open_during_load",
            "dom.webdriver.enabled",
            "dom.webnotifications.enabled",
            "extensions.webextensions.restrictedDomains",
            "extensions.webextensions.uuids",
            "general.useragent.override",
            "geo.provider.network.url",
            "image.mem.decode_bytes_at_a_time",
            "intl.accept_languages",
            "layout.css.devPixelsPerPx",
            "media.navigator.permission.disabled",
            "media.navigator.streams.fake",
            "network.cookie.lifetimePolicy",
            "network.http.phishy-userpass-length",
            "pdfjs.disabled",
            "permissions.default.image",
            "privacy.trackingprotection.enabled",
            "security.csp.enable",
            "security.enterprise_roots.enabled",
            "security.mixed_content.block_active_content",
            "toolkit.legacyUserProfileCustomizations.stylesheets",
            "xpinstall.signatures.required",
        ] {
            assert_eq!(class(name, &[]), Class::Free, "{name}");
        }
        for name in [
            "app.normandy.api_url",
            "app.update.enabled",
            "browser.EULA.3.accepted",
            "browser.helperApps.neverAsk.openFile",
            "dom.ipc.plugins.enabled.libflashplayer.so",
            "network.trr.mode",
            "remote.active-protocols",
            "security.sandbox.content.tempDirSuffix",
            "services.settings.server",
            "webdriver_firefox_port",
        ] {
            assert_eq!(class(name, &[]), Class::Idle, "{name}");
        }
    }

    #[test]
    fn what_nobody_has_judged_waits_for_the_operator() {
        let allowed = ["shop".to_owned(), "my.own".to_owned()];
        for (name, wanted) in [("shop.colour", Class::Free), ("my.own", Class::Free), ("shopping.list", Class::Unknown)]
        {
            assert_eq!(class(name, &[]), Class::Unknown, "{name}");
            assert_eq!(class(name, &allowed), wanted, "{name}");
        }
    }

    /// One name, as somebody would write it to get past a check.
    fn spellings() -> impl Strategy<Value = (usize, String)> {
        let dashes =
            ["-", "--", "\u{2010}", "\u{2013}", "\u{2212}", ".", "=", " ", "\t", "\0", "\u{a0}", "\u{feff}", "\r\n"];
        let change = (0..4usize, any::<prop::sample::Index>(), prop::sample::select(dashes.to_vec()));
        (0..TRIED.len(), prop::collection::vec(change, 0..3)).prop_map(|(at, changes)| {
            let mut name = TRIED[at].to_owned();
            for (how, place, extra) in changes {
                let index = place.index(name.len() + 1);
                match how {
                    _ if !name.is_char_boundary(index) => {}
                    // A letter that is another one once its upper bits are cut off.
                    0 if index < name.len() && name.as_bytes()[index].is_ascii() => {
                        let cut = char::from_u32(0x100 + u32::from(name.as_bytes()[index])).unwrap();
                        name.replace_range(index..=index, &cut.to_string());
                    }
                    1 => name = name.to_ascii_uppercase(),
                    2 => name.insert_str(if place.index(2) == 0 { 0 } else { name.len() }, extra),
                    _ => name.insert_str(index, extra),
                }
            }
            (at, name)
        })
    }

    /// What Firefox would take a text for on the ways by which preferences reach it.
    fn as_firefox_reads(name: &str) -> String {
        let cut = name.split('\0').next().unwrap_or_default();
        cut.chars()
            .map(|letter| char::from((u32::from(letter) & 0xff) as u8))
            .take_while(|letter| *letter != '\0')
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// However a name is written: if Firefox takes it for one that is refused, it is no name, or refused.
        #[test]
        fn no_spelling_of_a_name_goes_around_the_table((at, written) in spellings()) {
            let reaches = as_firefox_reads(&written) == TRIED[at];
            let passes = is_name(&written) && class(&written, &[]) != Class::Refused;
            prop_assert!(!(reaches && passes), "{written:?}");
        }

        /// A name that passes is the same text to Firefox.
        #[test]
        fn a_name_is_read_as_it_is_written(name in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            prop_assert!(!is_name(&name) || as_firefox_reads(&name) == name);
        }
    }
}
