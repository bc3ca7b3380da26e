// The messages between the daemon and this page; orchestrator/sessions/src/live/message.rs defines them on the daemon's side.

export interface Tab {
  id: string;
  title: string;
  url: string;
}

export interface Hello {
  type: 'hello';
  viewer: number;
  may_act: boolean;
  picture: 'display' | 'frames';
  text: boolean;
  browser_type: string;
  mode: string;
  /** Whether the picture has the browser's own tabs and address bar. */
  bars: boolean;
  /** Without a message for this long, in milliseconds, the connection is dead. */
  silence: number;
}

export interface State {
  type: 'state';
  viewers: number;
  holder: number | null;
  paused: boolean;
  tabs: Tab[];
  status: string;
  time_left: number;
  /** The challenge that waits to be solved, and its tab where that is known. */
  captcha: { kind: string; by: 'person' | 'solver'; url: string; since: number; tab: string | null } | null;
}

export type ServerMessage =
  | Hello
  | State
  | { type: 'clipboard'; text: string }
  | { type: 'refused'; message: string }
  | { type: 'ended'; status: string; reason: string; message: string; recording: boolean }
  | { type: 'unshared' };

export interface Touch {
  id: number;
  x: number;
  y: number;
}

export type Phase = 'down' | 'move' | 'up' | 'cancel';

export type ClientMessage =
  | { type: 'control'; take: boolean }
  | { type: 'pause'; on: boolean }
  | { type: 'ack' }
  | { type: 'tab'; id: string | null }
  | { type: 'go'; to: 'back' | 'forward' | 'reload' }
  | { type: 'open'; url: string }
  | { type: 'captcha'; act: 'solved' | 'give_up'; since: number }
  | { type: 'copy' }
  | { type: 'view'; side: number }
  | { type: 'input'; input: 'mouse'; phase: Phase; x: number; y: number; button: string; buttons: number; clicks: number; modifiers: number }
  | { type: 'input'; input: 'wheel'; x: number; y: number; dx: number; dy: number; modifiers: number }
  | { type: 'input'; input: 'touch'; phase: Phase; touches: Touch[]; modifiers: number }
  | { type: 'input'; input: 'key'; down: boolean; key: string; code: string; key_code: number; text: string; repeat: boolean; location: number; modifiers: number }
  | { type: 'input'; input: 'text'; text: string }
  | { type: 'input'; input: 'compose'; text: string };
