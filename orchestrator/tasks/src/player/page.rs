//! The page of a task: scripts in it, its windows and frames.

mod answer;

use std::time::Duration;

use fantoccini::Client;
use fantoccini::elements::{Element, ElementRef};
use fantoccini::wd::WindowHandle;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::browser::{Browser, DriverCommand, DriverContext, Timeouts};
use super::retry::Retry;
use crate::script::selector::Selectors;
use crate::script::step::Step;
use crate::script::{FailureCode, StepError};
pub(crate) use answer::explain;
pub(super) use answer::{handle, understand};
use warmpool_core::browser::Engine;
pub(super) use warmpool_protocol::ELEMENT;

/// The functions that scripts call.
pub(super) const FUNCTIONS: &str = include_str!("page.js");

/// Which document is there, and how far it is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct DocumentState {
    /// When the document began: no two in one place began at the same moment.
    pub(crate) origin: f64,
    /// Its address.
    pub(crate) href: String,
    /// `loading`, `interactive` or `complete`.
    pub(crate) ready: String,
    pub(crate) title: String,
    /// Its address, or that of what the browser shows in its place.
    #[serde(default)]
    pub(crate) uri: String,
    /// The mark of a page that stands for a refusal, or what passes for one.
    #[serde(default)]
    pub(crate) refusal: Option<String>,
}

impl DocumentState {
    /// Whether it is another document, or another address of the same.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        (self.origin - other.origin).abs() > f64::EPSILON || self.href != other.href
    }
}

/// An element that stands ready.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(crate) element: Element,
    /// The same for scripts.
    pub(crate) handle: Value,
    /// Where to point at it in the viewport, in CSS pixels.
    pub(crate) point: (i64, i64),
    /// Relative to the middle of its visible part.
    pub(crate) from_center: (i64, i64),
}

/// How ready an element must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    Present,
    /// It can be seen, and stands still.
    Visible,
    /// It can be used, too.
    Enabled,
}

impl Readiness {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Visible => "visible",
            Self::Enabled => "enabled",
        }
    }
}

/// The window and frame that commands reach.
pub(super) struct Page {
    /// The driver.
    pub(crate) client: Client,
    pub(crate) engine: Engine,
    pub(super) browser: Browser,
    /// How long the driver waits; none while that is being changed, and after a change that was given up.
    timeouts: Option<Timeouts>,
    /// The window that the driver is in, where that is known. A switch may be given up half-way, and then it is not.
    pub(super) here: Option<WindowHandle>,
    /// The first window, once that had to be known.
    main: Option<WindowHandle>,
    /// Windows that are not to be touched.
    others: Vec<WindowHandle>,
    in_main: bool,
    in_frame: bool,
    /// The document around the frame, as it was when the frame was entered.
    around: Option<DocumentState>,
}

impl Page {
    /// The first window of a browser, whose driver waits `timeout` for pages and scripts.
    pub(super) async fn open(browser: &Browser, timeout: Duration, max_output: u64) -> Result<Self, StepError> {
        let timeouts = Timeouts { page_load: timeout, script: timeout };
        let DriverContext { client, main, others } = browser.drive(timeouts, max_output).await?;
        let (engine, browser) = (browser.engine(), browser.clone());
        Ok(Self {
            client,
            engine,
            browser,
            timeouts: Some(timeouts),
            here: main.clone(),
            main,
            others,
            in_main: true,
            in_frame: false,
            around: None,
        })
    }

    /// The window that the driver is in, which it is asked for where nobody knows.
    pub(super) async fn window(&mut self) -> Result<WindowHandle, StepError> {
        let window = match self.here.take() {
            Some(window) => window,
            None => self.client.window().await?,
        };
        Ok(self.here.insert(window).clone())
    }

    /// The windows of this work.
    pub(super) async fn windows(&self) -> Result<Vec<WindowHandle>, StepError> {
        let mut windows = self.client.windows().await?;
        windows.retain(|window| !self.others.contains(window));
        Ok(windows)
    }

    /// Makes the driver wait as long as the step may.
    pub(crate) async fn set_timeouts(&mut self, time: Duration) -> Result<(), StepError> {
        self.set_each_timeout(Timeouts { page_load: time, script: time }).await
    }

    /// The same, where pages may take another time than scripts.
    pub(super) async fn set_each_timeout(&mut self, timeouts: Timeouts) -> Result<(), StepError> {
        if self.timeouts != Some(timeouts) {
            self.timeouts = None;
            self.client.issue_cmd(DriverCommand::timeouts(timeouts.value())).await?;
            self.timeouts = Some(timeouts);
        }
        Ok(())
    }

    /// Calls a function of `page.js`.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        function: &str,
        arguments: Vec<Value>,
    ) -> Result<T, StepError> {
        self.script("", &format!("return page.{function}(...arguments);"), arguments).await
    }

    /// Runs a script that may use `page.js` and `more`.
    pub(super) async fn script<T: DeserializeOwned>(
        &self,
        more: &str,
        script: &str,
        arguments: Vec<Value>,
    ) -> Result<T, StepError> {
        let script = format!("{FUNCTIONS}\n{more}\n{script}");
        understand(self.client.execute(&script, arguments).await)
    }

    /// Calls a function of `page.js` that promises its answer.
    pub(super) async fn call_async<T: DeserializeOwned>(
        &self,
        function: &str,
        arguments: Vec<Value>,
    ) -> Result<T, StepError> {
        let script = format!(
            "{FUNCTIONS}\nconst done = arguments[arguments.length - 1];\
             page.{function}(...[...arguments].slice(0, -1)).then(done, \
             (error) => done({{ fault: {{ code: 'script_error', message: String(error) }} }}));"
        );
        understand(self.client.execute_async(&script, arguments).await)
    }

    /// The document that commands reach.
    /// Errors: also when it stands for a page that the egress policy refuses, or whose site or proxy could not be reached.
    pub(crate) async fn document_state(&self) -> Result<DocumentState, StepError> {
        let state = self.any_document_state().await?;
        self.check_came(&state).await?;
        Ok(state)
    }

    pub(super) async fn any_document_state(&self) -> Result<DocumentState, StepError> {
        self.call("where", Vec::new()).await
    }

    /// Whether commands reach a frame, not the window's own document.
    pub(crate) const fn is_in_frame(&self) -> bool {
        self.in_frame
    }

    /// The document around the frame that was entered.
    pub(super) const fn around(&self) -> Option<&DocumentState> {
        self.around.as_ref()
    }

    /// Finds the element to act on, and waits until it is ready.
    pub(super) async fn find(
        &self,
        selectors: &Selectors,
        need: Readiness,
        offset: Option<(f64, f64)>,
        deadline: Instant,
    ) -> Result<Found, StepError> {
        let mut retry = Retry::until(deadline);
        loop {
            if let Some(result) = retry.attempt(self.find_now(selectors, need, offset)).await {
                return result;
            }
        }
    }

    /// Looks once, for what retries by itself: a wait within a wait of the same end loses its reason, since either may
    /// be woken first.
    pub(super) async fn find_now(
        &self,
        selectors: &Selectors,
        need: Readiness,
        offset: Option<(f64, f64)>,
    ) -> Result<Found, StepError> {
        #[derive(Deserialize)]
        struct Prepared {
            element: Value,
            #[serde(default)]
            x: i64,
            #[serde(default)]
            y: i64,
            #[serde(default)]
            from_center: (i64, i64),
        }
        let offset = offset.map_or(Value::Null, |(x, y)| json!([x, y]));
        // WebKit's driver knows elements only where they are arguments themselves.
        let element = selectors.as_element().cloned().unwrap_or(Value::Null);
        let arguments = vec![json!(selectors), json!(need.as_str()), offset, element];
        let found: Prepared = self.call_async("prepare", arguments).await.map_err(|error| explain(error, selectors))?;
        let element = self.element(&found.element)?;
        Ok(Found { element, handle: found.element, point: (found.x, found.y), from_center: found.from_center })
    }

    /// An element that a script gave.
    pub(super) fn element(&self, handle: &Value) -> Result<Element, StepError> {
        let id = handle[ELEMENT].as_str();
        let id = id.ok_or_else(|| StepError::passing(FailureCode::NoMatch, "the element went away"))?;
        Ok(Element::from_element_id(self.client.clone(), ElementRef::from(id.to_owned())))
    }

    /// Goes to the window and frame that a step is for.
    pub(super) async fn enter(&mut self, step: &Step, deadline: Instant) -> Result<(), StepError> {
        let mut retry = Retry::until(deadline);
        loop {
            if let Some(result) = retry.attempt(self.enter_now(step)).await {
                return result;
            }
        }
    }

    async fn enter_now(&mut self, step: &Step) -> Result<(), StepError> {
        self.leave_frames().await?;
        match &step.target {
            None => self.enter_main().await?,
            Some(target) => self.enter_target(target).await?,
        }
        for index in &step.frame {
            #[derive(Deserialize)]
            struct FrameElement {
                element: Value,
                r#where: DocumentState,
            }
            let answer: FrameElement = self.call("frame_element", vec![json!(index)]).await?;
            if answer.element.is_null() {
                let message = format!("there is no frame {index} (of `frame`: {:?})", step.frame);
                return Err(StepError::passing(FailureCode::NoMatch, message));
            }
            if !self.in_frame {
                self.around = Some(answer.r#where);
            }
            self.enter_frame(&answer.element).await?;
        }
        Ok(())
    }

    /// Goes into a frame that a script gave.
    pub(super) async fn enter_frame(&mut self, frame: &Value) -> Result<(), StepError> {
        let frame = self.element(frame)?;
        let here = self.here.take();
        let entered = frame.enter_frame().await;
        self.here = here;
        entered?;
        self.in_frame = true;
        Ok(())
    }

    /// Goes to a window, and out of all frames.
    pub(super) async fn switch_to(&mut self, window: WindowHandle) -> Result<(), StepError> {
        self.here = None;
        self.client.switch_to_window(window.clone()).await?;
        self.here = Some(window);
        (self.in_frame, self.around) = (false, None);
        Ok(())
    }

    /// Goes back to the window's own document.
    pub(crate) async fn leave_frames(&mut self) -> Result<(), StepError> {
        if self.in_frame {
            self.client.issue_cmd(DriverCommand::top_frame()).await?;
            self.in_frame = false;
        }
        self.around = None;
        Ok(())
    }

    async fn enter_main(&mut self) -> Result<(), StepError> {
        if let (false, Some(main)) = (self.in_main, &self.main) {
            self.switch_to(main.clone()).await?;
            self.in_main = true;
        }
        Ok(())
    }

    /// Goes to the window with this address, or to the frame with it.
    async fn enter_target(&mut self, target: &str) -> Result<(), StepError> {
        let main = match &self.main {
            Some(main) => main.clone(),
            None => {
                let main = self.window().await?;
                self.main.insert(main).clone()
            }
        };
        let windows = self.windows().await?;
        for window in windows.iter().filter(|window| **window != main) {
            self.in_main = false;
            self.switch_to(window.clone()).await?;
            if same_address(&self.any_document_state().await?.href, target) {
                return Ok(());
            }
        }
        self.switch_to(main).await?;
        self.in_main = true;
        let here = self.any_document_state().await?;
        if same_address(&here.href, target) {
            return Ok(());
        }
        // The Recorder also names frames of other sites so.
        #[derive(Deserialize)]
        struct FrameElements {
            elements: Vec<Value>,
        }
        let frames: FrameElements = self.call("frame_elements", Vec::new()).await?;
        for frame in &frames.elements {
            self.enter_frame(frame).await?;
            if same_address(&self.any_document_state().await?.href, target) {
                self.around = Some(here);
                return Ok(());
            }
            self.leave_frames().await?;
        }
        Err(StepError::passing(FailureCode::NoMatch, format!("no window or frame shows `{target}`")))
    }

    /// Closes the window; the last one leaves an empty one behind, since without any the browser would end.
    pub(crate) async fn close_window(&mut self) -> Result<(), StepError> {
        let this = self.client.window().await?;
        let windows = self.windows().await?;
        let next = match windows.into_iter().find(|window| *window != this) {
            Some(other) => other,
            None => self.browser.another_window(&self.client).await?,
        };
        self.client.close_window().await?;
        self.switch_to(next.clone()).await?;
        if self.main.as_ref().is_none_or(|main| *main == this) {
            self.main = Some(next.clone());
        }
        self.in_main = self.main.as_ref() == Some(&next);
        Ok(())
    }
}

/// Whether two addresses are the same, apart from how they are written.
fn same_address(one: &str, other: &str) -> bool {
    one == other || url::Url::parse(other).is_ok_and(|other| other.as_str() == one)
}
