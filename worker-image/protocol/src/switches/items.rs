//! Switches whose value is a list: which of its items a client may set.

/// A kind of list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Features of the browser to switch on.
    EnabledFeatures,
    /// Features of the browser to switch off.
    DisabledFeatures,
    /// Features of pages to switch on.
    EnabledBlinkFeatures,
    /// Features of pages to switch off.
    DisabledBlinkFeatures,
    /// Settings of pages, with values.
    BlinkSettings,
    /// Flags of the JavaScript engine.
    JsFlags,
    /// Where passwords are kept.
    PasswordStore,
}

/// A list, judged.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) kept: Vec<String>,
    /// Each as an operator would allow it.
    pub(super) left_out: Vec<String>,
    pub(super) has_refused: bool,
}

const ENABLED_FEATURES: &[&str] = &[
    "AutofillShowTypePredictions",
    "CDPScreenshotNewSurface",
    "FedCmWithoutWellKnownEnforcement",
    "GenericSensorExtraClasses",
    "SecurePaymentConfirmationBrowser",
    "SharedArrayBuffer",
    "SkipListAccountsWithoutGaiaCookies",
    "UserAgentClientHint",
    "WebContentsForceDark",
    "WebMachineLearningNeuralNetwork",
    "WebUIDarkMode",
];

const DISABLED_FEATURES: &[&str] = &[
    "AcceptCHFrame",
    "AimEnabled",
    "AudioServiceOutOfProcess",
    "AutoExpandDetailsElement",
    "AutofillServerCommunication",
    "AutomationControlled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "BackForwardCache",
    "BlinkGenPropertyTrees",
    "CalculateNativeWinOcclusion",
    "CanvasOopRasterization",
    "CertificateTransparencyComponentUpdater",
    "ChromeWhatsNewUI",
    "ComponentUpdater",
    "CookiesWithoutSameSiteMustBeSecure",
    "CrashReporting",
    "DeferRendererTasksAfterInput",
    "DestroyProfileOnBrowserClose",
    "DialMediaRouteProvider",
    // It lets a switch work that is refused.
    "DisableLoadExtensionCommandLineSwitch",
    "DownloadBubble",
    "DownloadBubbleV2",
    "ExtensionDisableUnsupportedDeveloper",
    "ExtensionManifestV2Disabled",
    "GlobalMediaControls",
    "HeavyAdPrivacyMitigations",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "ImprovedCookieControls",
    "InfiniteSessionRestore",
    "InsecureDownloadWarnings",
    "InterestFeedContentSuggestions",
    "InterestFeedV2",
    "IsolateOrigins",
    "IsolateSandboxedIframes",
    "LazyFrameLoading",
    "LensOverlay",
    "MediaRouter",
    "NetworkPrediction",
    "NetworkTimeServiceQuerying",
    "OmniboxPopupShortcut",
    "OmniboxUIFeedback",
    "OptimizationGuideModelDownloading",
    "OptimizationHints",
    "OptimizationHintsFetching",
    "OptimizationTargetPrediction",
    "OutOfBlinkCors",
    "OverscrollHistoryNavigation",
    "PaintHolding",
    "PasskeyAuth",
    "PdfOopif",
    "PreconnectToSearch",
    "PrivacySandboxSettings4",
    "ProcessPerSiteUpToMainFrameThreshold",
    "PushMessaging",
    "RenderDocument",
    "SameSiteByDefaultCookies",
    "SidePanelPinning",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
    "Translate",
    "TranslateUI",
    "UserAgentClientHint",
    "VizDisplayCompositor",
    "WebAuthentication",
    "WebPayments",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
    "WebUIReloadButton",
    "msAutofillEdgeCoupons",
    "msEdgeShoppingUI",
    "msEdgeUpdateLaunchServicesPreferredVersion",
    "msEntityExtraction",
    "msEntityExtractionProactive",
    "msForceBrowserSignIn",
    "msShoppingTrigger",
    "msWebAssist",
    "site-per-process",
];

const ENABLED_BLINK_FEATURES: &[&str] = &["DisableAhemAntialias", "IdleDetection", "ShadowDOMV0"];

const DISABLED_BLINK_FEATURES: &[&str] = &["AutomationControlled", "PrettyPrintJSONDocument"];

const BLINK_SETTINGS: &[&str] = &[
    "availableHoverTypes",
    "availablePointerTypes",
    "forceDarkModeEnabled",
    "hideScrollbars",
    "imagesEnabled",
    "loadsImagesAutomatically",
    "preferredColorScheme",
    "primaryHoverType",
    "primaryPointerType",
    "scriptEnabled",
];

const JS_FLAGS: &[&str] = &[
    "expose-gc",
    "initial-old-space-size",
    "jitless",
    "lite-mode",
    "max-old-space-size",
    "max-semi-space-size",
    "no-expose-wasm",
    "noexpose-wasm",
    "random-seed",
];

const PASSWORD_STORES: &[&str] = &["basic"];

/// Beginnings, in lower case, of items that give pages the browser's own interfaces.
const INTERFACES: &str = "mojo";
/// Items that take the sandbox away from one of the browser's processes when they are switched off.
const SANDBOXES: &[&str] = &["networkservicesandbox", "printbackendsandbox", "servicesandbox", "xrsandbox"];

impl List {
    const fn allowed(self) -> &'static [&'static str] {
        match self {
            Self::EnabledFeatures => ENABLED_FEATURES,
            Self::DisabledFeatures => DISABLED_FEATURES,
            Self::EnabledBlinkFeatures => ENABLED_BLINK_FEATURES,
            Self::DisabledBlinkFeatures => DISABLED_BLINK_FEATURES,
            Self::BlinkSettings => BLINK_SETTINGS,
            Self::JsFlags => JS_FLAGS,
            Self::PasswordStore => PASSWORD_STORES,
        }
    }

    /// What stands between two items.
    #[must_use]
    pub const fn separator(self) -> &'static str {
        match self {
            Self::JsFlags => " ",
            _ => ",",
        }
    }

    /// Whether two such switches add up. Of others the last one counts.
    #[must_use]
    pub const fn adds_up(self) -> bool {
        !matches!(self, Self::PasswordStore)
    }

    /// Whether an item is known to weaken the fence.
    pub(super) fn refuses(self, item: &str) -> bool {
        let item = item.to_ascii_lowercase();
        match self {
            Self::EnabledFeatures | Self::EnabledBlinkFeatures => item.starts_with(INTERFACES),
            Self::DisabledFeatures => SANDBOXES.contains(&item.as_str()),
            _ => false,
        }
    }

    /// Judges the items of a switch's value.
    pub(super) fn judge_items(self, name: &str, value: &str, allowed: &[String]) -> Lists {
        let mut lists = Lists::default();
        let is_end = |character: char| character == ',' || (self == Self::JsFlags && character.is_whitespace());
        for item in value.split(is_end).map(str::trim).filter(|item| !item.is_empty()) {
            let (key, item) = match self {
                Self::JsFlags => {
                    let flag = item.trim_start_matches('-');
                    let (key, value) = flag.split_once('=').map_or((flag, None), |(key, value)| (key, Some(value)));
                    let key = key.replace('_', "-");
                    let item = value.map_or_else(|| format!("--{key}"), |value| format!("--{key}={value}"));
                    (key, item)
                }
                Self::BlinkSettings => (item.split_once('=').unwrap_or((item, "")).0.to_owned(), item.to_owned()),
                _ => (item.to_owned(), item.to_owned()),
            };
            // Values of flags and settings are numbers and words.
            let value = item.split_once('=').map_or("", |(_, value)| value);
            let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
            let names_it = |entry: &String| entry == name || entry.split_once('=') == Some((name, &key));
            if self.refuses(key.trim_start_matches(|c: char| !c.is_ascii_alphanumeric())) {
                lists.has_refused = true;
            } else if is_plain
                && (self.allowed().contains(&key.as_str()) || (is_item(&key) && allowed.iter().any(names_it)))
            {
                lists.kept.push(item);
            } else {
                lists.left_out.push(format!("{name}={key}"));
            }
        }
        lists
    }
}

/// Whether it is one name, without what Chromium reads as a field trial or a parameter.
fn is_item(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
