// Tasks as the API shows them.

import { counted } from '../shared/format';
import type { Labels } from './labels';

export interface ItemCounts {
  total: number;
  queued: number;
  running: number;
  success: number;
  failure: number;
  cancelled: number;
}

export interface TaskError {
  code: string;
  message: string;
  step?: number;
  screenshot?: string;
}

export interface Artifact {
  name: string;
  mediaType: string;
  bytes: number;
}

export interface Task {
  taskId: string;
  executionType: 'run' | 'extract' | 'fleet';
  executionTime: number;
  inputs: Record<string, unknown>;
  output: unknown[];
  outputBytes?: number;
  servicePasscode?: string;
  metadata?: Labels;
  timestamp: number;
  status: string;
  browserType: string;
  headless: boolean;
  keyId: string;
  artifacts?: Artifact[];
  name?: string;
  title?: string;
  page?: string;
  sessionId?: string;
  error?: TaskError;
  waiting?: TaskError;
  startedAt?: number;
  endedAt?: number;
  items?: ItemCounts;
  retryOf?: string;
  stepTimes?: number[];
}

export interface TaskItem {
  index: number;
  status: string;
  attempts: number;
  executionTime: number;
  inputs: Record<string, unknown>;
  output: unknown[];
  error?: TaskError;
  artifacts?: string[];
}

export const runs = ({ status }: { status: string }): boolean => status === 'queued' || status === 'running';
export const mayRetry = ({ status }: { status: string }): boolean => status === 'failure' || status === 'cancelled';

/** What people call a task. */
export function taskName(task: Task): string {
  // The page of a fleet is a template, which says little.
  const page = task.items && task.page?.includes('{{') ? `Fleet of ${counted(task.items.total, 'item', 'items')}` : task.page;
  return task.name ?? task.title ?? page ?? task.taskId;
}
