//! The macros of the settings table. `settings` makes a struct of each section and the list of its settings, from which flags,
//! environment names and the sample file come; `sections` makes of the sections what [`Config`](super::Config) holds.

macro_rules! settings {
    ($( $(#[doc = $about:literal])+ $section:ident: $Section:ident { $(
        $(#[doc = $help:literal])+ $key:ident: $ty:ty = $default:expr $(, min $min:literal)?;
    )+ } )+) => { $(
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Section { $( $(#[doc = $help])+ pub $key: $ty, )+ }

        impl $Section {
            /// What the section is about, a line each.
            pub(super) const ABOUT: &[&str] = &[ $($about),+ ];

            /// Its settings, in the table's order.
            pub(super) const SETTINGS: &[Setting] = &[ $( Setting {
                name: concat!(stringify!($section), ".", stringify!($key)),
                help: &[ $($help),+ ],
                default: $default,
                min: settings!(@min $($min)?),
                toml_form: <$ty as Value>::TOML_FORM,
                placeholder: <$ty as Value>::PLACEHOLDER,
            }, )+ ];

            /// Takes every setting from its strongest source; faults are left in `layers`.
            pub(super) fn fill(layers: &mut Layers<'_>) -> Self {
                Self { $( $key: layers.take::<$ty>(concat!(stringify!($section), ".", stringify!($key))), )+ }
            }

            /// The value of a setting in TOML notation, `None` where it is unset.
            pub(super) fn toml(&self, key: &str) -> Option<String> {
                match key {
                    $( stringify!($key) => self.$key.toml(), )+
                    _ => None,
                }
            }
        }
    )+ };
    (@min) => { None };
    (@min $min:literal) => { Some($min) };
}

macro_rules! sections {
    ($( $section:ident: $Section:ident, )+) => {
        /// Every section of the settings.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Sections { $( #[doc = concat!("The settings under `", stringify!($section), "`.")] pub $section: $Section, )+ }

        impl Sections {
            /// Takes every setting from its strongest source; faults are left in `layers`.
            pub(super) fn fill(layers: &mut Layers<'_>) -> Self {
                Self { $( $section: $Section::fill(layers), )+ }
            }

            /// The value of a setting in TOML notation, `None` where it is unset.
            pub(super) fn toml(&self, setting: &Setting) -> Option<String> {
                match setting.section() {
                    $( stringify!($section) => self.$section.toml(setting.key()), )+
                    _ => None,
                }
            }
        }

        /// Every section, in the order of the sample file.
        pub(super) static SECTIONS: &[Section] = &[ $( Section {
            name: stringify!($section),
            about: $Section::ABOUT,
            settings: $Section::SETTINGS,
        }, )+ ];
    };
}

pub(super) use sections;
pub(super) use settings;
