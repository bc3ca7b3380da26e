//! The macro behind the settings table: structs, list and filling, from one line for each setting.

macro_rules! settings {
    ($( $(#[doc = $about:literal])+ $section:ident: $Section:ident { $(
        $(#[doc = $help:literal])+ $key:ident: $ty:ty = $preset:expr $(, min $min:literal)?;
    )+ } )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, PartialEq)]
            pub struct $Section { $( $(#[doc = $help])+ pub $key: $ty, )+ }

            impl $Section {
                fn fill(layers: &mut Layers<'_>) -> Self {
                    Self { $( $key: layers.take::<$ty>(concat!(stringify!($section), ".", stringify!($key))), )+ }
                }
            }
        )+

        /// Every section of the settings.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Sections { $( $(#[doc = $about])+ pub $section: $Section, )+ }

        impl Sections {
            /// Takes every setting from its strongest source; faults are left in `layers`.
            pub(super) fn fill(layers: &mut Layers<'_>) -> Self {
                Self { $( $section: $Section::fill(layers), )+ }
            }

            /// The value of a setting in TOML notation, `None` where it is unset.
            pub(super) fn toml(&self, name: &str) -> Option<String> {
                $( $( if name == concat!(stringify!($section), ".", stringify!($key)) {
                    return self.$section.$key.toml();
                } )+ )+
                None
            }
        }

        /// Every setting, in the table's order.
        pub(super) static SETTINGS: &[Setting] = &[ $( $( Setting {
            name: concat!(stringify!($section), ".", stringify!($key)),
            help: &[ $($help),+ ],
            preset: $preset,
            min: settings!(@min $($min)?),
            shape: <$ty as Value>::SHAPE,
            form: <$ty as Value>::FORM,
        }, )+ )+ ];

        /// Every section: its name and what it is about.
        pub(super) static SECTIONS: &[(&str, &[&str])] = &[ $( (stringify!($section), &[ $($about),+ ]), )+ ];
    };
    (@min) => { None };
    (@min $min:literal) => { Some($min) };
}

pub(super) use settings;
