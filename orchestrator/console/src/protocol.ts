// What the daemon and this page say to each other; orchestrator/src/live/message.rs is the other side of it.

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
  /** After so many milliseconds without a word the connection is dead. */
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
}

export type Told =
  | Hello
  | State
  | { type: 'clipboard'; text: string }
  | { type: 'refused'; message: string }
  | { type: 'ended'; status: string; reason: string; message: string }
  | { type: 'unshared' };

export interface Touch {
  id: number;
  x: number;
  y: number;
}

export type Phase = 'down' | 'move' | 'up';

export type Said =
  | { type: 'control'; take: boolean }
  | { type: 'pause'; on: boolean }
  | { type: 'ack' }
  | { type: 'tab'; id: string | null }
  | { type: 'go'; to: 'back' | 'forward' | 'reload' }
  | { type: 'open'; url: string }
  | { type: 'copy' }
  | { type: 'input'; input: 'mouse'; phase: Phase; x: number; y: number; button: string; buttons: number; clicks: number; modifiers: number }
  | { type: 'input'; input: 'wheel'; x: number; y: number; dx: number; dy: number; modifiers: number }
  | { type: 'input'; input: 'touch'; phase: Phase; touches: Touch[]; modifiers: number }
  | { type: 'input'; input: 'key'; down: boolean; key: string; code: string; key_code: number; text: string; repeat: boolean; location: number; modifiers: number }
  | { type: 'input'; input: 'text'; text: string }
  | { type: 'input'; input: 'compose'; text: string };
