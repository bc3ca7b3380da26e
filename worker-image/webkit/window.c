/* Windows: one view each, no decoration, so that a page's inner size is the window's size. */
#include "shell.h"

#include <string.h>

static void watch(Shell *shell, WebKitWebView *view);

static void closed(GtkWidget *view, gpointer data) {
  Shell *shell = data;
  shell->views = g_list_remove(shell->views, view);
  /* As in other browsers: no window, no browser. */
  if (!shell->views) {
    gtk_main_quit();
    return;
  }
  page_show_front(shell);
}

static void on_close(WebKitWebView *view, gpointer data) {
  (void)data;
  gtk_widget_destroy(gtk_widget_get_toplevel(GTK_WIDGET(view)));
}

/* A window that a page opened is shown once the size the page asked for is known. */
static void on_ready_to_show(WebKitWebView *view, gpointer data) {
  (void)data;
  GtkWindow *window = GTK_WINDOW(gtk_widget_get_toplevel(GTK_WIDGET(view)));
  GdkRectangle place;
  webkit_window_properties_get_geometry(webkit_web_view_get_window_properties(view), &place);
  if (place.width > 0 && place.height > 0) {
    gtk_window_resize(window, place.width, place.height);
    gtk_window_move(window, MAX(place.x, 0), MAX(place.y, 0));
  }
  gtk_widget_show_all(GTK_WIDGET(window));
  gtk_window_present(window);
}

static GtkWidget *on_create(WebKitWebView *opener, WebKitNavigationAction *action, gpointer data) {
  (void)action;
  return GTK_WIDGET(window_open(data, opener, FALSE));
}

static gboolean wants_download(WebKitResponsePolicyDecision *decision) {
  if (!webkit_response_policy_decision_is_mime_type_supported(decision)) {
    return TRUE;
  }
  SoupMessageHeaders *headers =
      webkit_uri_response_get_http_headers(webkit_response_policy_decision_get_response(decision));
  g_autofree char *disposition = NULL;
  GHashTable *parameters = NULL;
  if (!headers || !soup_message_headers_get_content_disposition(headers, &disposition, &parameters)) {
    return FALSE;
  }
  g_hash_table_unref(parameters);
  return g_ascii_strcasecmp(disposition, "attachment") == 0;
}

/* What WebKit shows of the worker itself: files of the container, its libraries and its machine. They are nobody's pages. It
 * knows no scheme but these and those of the web. */
static gboolean names_worker(WebKitNavigationPolicyDecision *decision) {
  WebKitNavigationAction *action = webkit_navigation_policy_decision_get_navigation_action(decision);
  const char *url = webkit_uri_request_get_uri(webkit_navigation_action_get_request(action));
  static const char *const schemes[] = {"file", "resource", "webkit", NULL};
  const char *scheme = g_uri_peek_scheme(url);
  return scheme && g_strv_contains(schemes, scheme);
}

static gboolean on_decide_policy(WebKitWebView *view, WebKitPolicyDecision *decision, WebKitPolicyDecisionType type,
                                 gpointer data) {
  (void)data;
  if (type != WEBKIT_POLICY_DECISION_TYPE_RESPONSE && names_worker(WEBKIT_NAVIGATION_POLICY_DECISION(decision))) {
    webkit_policy_decision_ignore(decision);
    /* A navigation that came to nothing would leave its client waiting. */
    webkit_web_view_load_html(view, "<!doctype html><title>Blocked</title><h1>Blocked</h1><p>What is inside the worker is not shown.",
                              "about:blank");
    return TRUE;
  }
  if (type != WEBKIT_POLICY_DECISION_TYPE_RESPONSE || !wants_download(WEBKIT_RESPONSE_POLICY_DECISION(decision))) {
    return FALSE;
  }
  webkit_policy_decision_download(decision);
  return TRUE;
}

/* What would wait for a person at the machine is answered as a person who says no. */

static gboolean on_authenticate(WebKitWebView *view, WebKitAuthenticationRequest *request, gpointer data) {
  (void)view, (void)data;
  webkit_authentication_request_cancel(request);
  return TRUE;
}

static gboolean on_print(WebKitWebView *view, WebKitPrintOperation *operation, gpointer data) {
  (void)view, (void)operation, (void)data;
  return TRUE;
}

/* A WebDriver client answers dialogs, and never gets here. The inspector cannot, and a dialog left open would stop its
 * page for good. */
static gboolean on_script_dialog(WebKitWebView *view, WebKitScriptDialog *dialog, gpointer data) {
  (void)view;
  const Shell *shell = data;
  if (shell->driven) {
    return FALSE;
  }
  if (webkit_script_dialog_get_dialog_type(dialog) == WEBKIT_SCRIPT_DIALOG_BEFORE_UNLOAD_CONFIRM) {
    webkit_script_dialog_confirm_set_confirmed(dialog, TRUE);
  }
  return TRUE;
}

static void on_web_process_terminated(WebKitWebView *view, WebKitWebProcessTerminationReason reason, gpointer data) {
  (void)view, (void)data;
  g_printerr("the process of a page has ended: %s\n",
             reason == WEBKIT_WEB_PROCESS_EXCEEDED_MEMORY_LIMIT ? "out of memory" : "crashed");
}

static void watch(Shell *shell, WebKitWebView *view) {
  g_signal_connect(view, "destroy", G_CALLBACK(closed), shell);
  g_signal_connect(view, "close", G_CALLBACK(on_close), NULL);
  g_signal_connect(view, "create", G_CALLBACK(on_create), shell);
  g_signal_connect(view, "ready-to-show", G_CALLBACK(on_ready_to_show), NULL);
  g_signal_connect(view, "decide-policy", G_CALLBACK(on_decide_policy), NULL);
  permissions_watch(shell, view);
  g_signal_connect(view, "authenticate", G_CALLBACK(on_authenticate), NULL);
  g_signal_connect(view, "print", G_CALLBACK(on_print), NULL);
  g_signal_connect(view, "script-dialog", G_CALLBACK(on_script_dialog), shell);
  g_signal_connect(view, "web-process-terminated", G_CALLBACK(on_web_process_terminated), NULL);
}

/* As on a desktop, a client cannot make a window vanish; this many pixels stay, unless pages are to be smaller. */
enum { SMALLEST = 100 };

static void keep_visible(const Shell *shell, GtkWindow *window) {
  GdkGeometry least = {.min_width = MIN(SMALLEST, shell->width), .min_height = MIN(SMALLEST, shell->height)};
  gtk_window_set_geometry_hints(window, NULL, &least, GDK_HINT_MIN_SIZE);
}

/* A new view in a window of its own. One that a page opened stays hidden until it is ready. */
WebKitWebView *window_open(Shell *shell, WebKitWebView *opener, gboolean as_tab) {
  WebKitWebView *view;
  WebKitAutomationBrowsingContextPresentation presentation =
      as_tab ? WEBKIT_AUTOMATION_BROWSING_CONTEXT_PRESENTATION_TAB : WEBKIT_AUTOMATION_BROWSING_CONTEXT_PRESENTATION_WINDOW;
  if (opener) {
    view = g_object_new(WEBKIT_TYPE_WEB_VIEW, "related-view", opener, "settings", shell->settings,
                        "user-content-manager", shell->content, NULL);
  } else {
    view = g_object_new(WEBKIT_TYPE_WEB_VIEW, "web-context", shell->context, "settings", shell->settings,
                        "user-content-manager", shell->content, "is-controlled-by-automation", TRUE,
                        "automation-presentation-type", presentation, NULL);
  }
  watch(shell, view);
  storage_watch(view);
  shell->views = g_list_append(shell->views, view);

  GtkWindow *window = GTK_WINDOW(gtk_window_new(GTK_WINDOW_TOPLEVEL));
  gtk_window_set_decorated(window, FALSE);
  gtk_window_set_default_size(window, shell->width, shell->height);
  keep_visible(shell, window);
  gtk_container_add(GTK_CONTAINER(window), GTK_WIDGET(view));
  page_watch(shell, view);
  if (!opener) {
    gtk_widget_show_all(GTK_WIDGET(window));
    gtk_window_present(window);
    webkit_web_view_load_uri(view, "about:blank");
  }
  return view;
}

static gboolean fits(const Shell *shell) {
  for (const GList *at = shell->views; at; at = at->next) {
    GtkWidget *view = at->data;
    if (gtk_widget_get_allocated_width(view) != shell->width || gtk_widget_get_allocated_height(view) != shell->height) {
      return FALSE;
    }
  }
  return TRUE;
}

static gboolean on_impatient(gpointer impatient) {
  *(gboolean *)impatient = TRUE;
  return G_SOURCE_REMOVE;
}

/* Gives every window the size of a page, and returns when they have it. FALSE when one does not take it. */
gboolean window_resize_all(Shell *shell) {
  for (GList *at = shell->views; at; at = at->next) {
    GtkWindow *window = GTK_WINDOW(gtk_widget_get_toplevel(GTK_WIDGET(at->data)));
    keep_visible(shell, window);
    gtk_window_resize(window, shell->width, shell->height);
  }
  gboolean impatient = FALSE;
  guint patience = g_timeout_add(2000, on_impatient, &impatient);
  while (!impatient && !fits(shell)) {
    gtk_main_iteration();
  }
  if (!impatient) {
    g_source_remove(patience);
  }
  return fits(shell);
}

/* A driver begins with a window of its own: the one that is there. */
static WebKitWebView *on_create_web_view(WebKitAutomationSession *session, gpointer data) {
  Shell *shell = data;
  if (!shell->taken && shell->views) {
    shell->taken = TRUE;
    return g_list_first(shell->views)->data;
  }
  const GSignalInvocationHint *hint = g_signal_get_invocation_hint(session);
  gboolean is_tab = hint && hint->detail == g_quark_from_static_string("tab");
  return window_open(shell, NULL, is_tab);
}

static void on_automation_started(WebKitWebContext *context, WebKitAutomationSession *session, gpointer data) {
  (void)context;
  Shell *shell = data;
  shell->driven = TRUE;
  shell->taken = FALSE;
  WebKitApplicationInfo *info = webkit_application_info_new();
  webkit_application_info_set_name(info, "WebKitGTK");
  webkit_application_info_set_version(info, WEBKIT_MAJOR_VERSION, WEBKIT_MINOR_VERSION, WEBKIT_MICRO_VERSION);
  webkit_automation_session_set_application_info(session, info);
  webkit_application_info_unref(info);
  g_signal_connect(session, "create-web-view", G_CALLBACK(on_create_web_view), shell);
}

void window_watch_automation(Shell *shell) {
  g_signal_connect(shell->context, "automation-started", G_CALLBACK(on_automation_started), shell);
}
