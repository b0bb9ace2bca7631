// Every text of the pages, in both languages, and the formats that depend on
// the language. The language follows the browser until the user chooses one.

import { SafeStorage } from './storage.js';

const storageKey = 'desk.locale';

/** The languages the pages speak, with their own names. */
export const locales = { 'en': 'English', 'zh-CN': '简体中文' };

export const texts = {
	'en': {
		'app.name': 'Desk',
		'landing.title': 'Desk',
		'landing.lead': 'A customer-service chat server that is running on this machine.',
		'landing.customer': 'Customer page',
		'landing.customerHint': 'Write as a visitor. The assistant answers; ask for a person to reach an agent.',
		'landing.console': 'Agent console',
		'landing.consoleHint': 'Log in with the account that was printed when the server started first.',
		'landing.tip': 'Open both, side by side, to see a conversation from both ends.',

		'language': 'Language',
		'close': 'Close',
		'cancel': 'Cancel',
		'notice.storage': 'This browser blocks storage. Unsent messages are lost when you close the page.',

		'banner.offline': 'You are offline. Messages are kept and sent later.',
		'banner.draining': 'The service is restarting. Messages are kept.',
		'banner.reconnecting': 'Connection lost. Messages are kept.',
		'banner.connecting': 'Connecting…',
		'banner.slow': 'The connection is slow.',
		'banner.stopped': 'The server ended this session. Reload the page to go on.',
		'banner.blocked': 'This chat is not available to you.',
		'banner.sessions': 'This chat is open in too many places. Close one and reload.',
		'banner.retryIn': 'Trying again in {n} s.',
		'banner.trying': 'Trying now…',
		'banner.tryNow': 'Try now',

		'composer.label': 'Message',
		'composer.placeholder': 'Write a message',
		'composer.send': 'Send',
		'composer.count': '{n} of {max}',
		'composer.over': 'Too long by {n} characters.',

		'state.pending': 'Waiting to be sent',
		'state.accepted': 'Sent',
		'state.failed': 'Not sent',
		'failed.not_sent': 'Not sent.',
		'failed.too_large': 'Not sent: too long.',
		'failed.closed': 'Not sent: the chat was closed.',
		'failed.forbidden': 'Not sent: another agent has this chat.',
		'failed.conflict': 'Not sent: take the chat first.',
		'failed.blocked': 'Not sent: this chat is not available to you.',
		'failed.other': 'Not sent: the server refused it.',
		'retry': 'Retry',
		'discard': 'Delete',

		'messages.label': 'Messages',
		'messages.today': 'Today',
		'messages.yesterday': 'Yesterday',
		'messages.new.one': '1 new message',
		'messages.new.other': '{n} new messages',
		'messages.bottom': 'Go to the latest message',
		'messages.loading': 'Loading the conversation…',
		'messages.you': 'You',
		'typing.one': '{name} is typing…',

		'who.bot': 'Assistant',
		'who.customer': 'Customer',
		'who.agent': 'Agent',

		'event.opened': 'Chat started',
		'event.handoff.me': 'You asked for a person',
		'event.handoff.customer': 'The customer asked for a person',
		'event.handoff.other': 'Handed over to the team',
		'event.returned': 'Back in the queue',
		'event.reopened': 'The chat was reopened',
		'event.taken.other': '{name} joined the chat',
		'event.taken.me': 'You joined the chat',
		'event.closed.me': 'You closed the chat',
		'event.closed.customer': 'The customer closed the chat',
		'event.closed.agent': '{name} closed the chat',
		'event.closed.other': 'The chat was closed',

		'customer.title': 'Chat',
		'customer.menu': 'Menu',
		'customer.human': 'Talk to a person',
		'customer.human.sent': 'Asking for a person…',
		'customer.end': 'End chat',
		'customer.end.title': 'End this chat?',
		'customer.end.body': 'You can start a new one at any time.',
		'customer.end.failed': 'The chat could not be ended. Try again when you are connected.',
		'customer.header.connecting': 'Connecting…',
		'customer.header.bot': 'Automatic assistant',
		'customer.header.waiting': 'Waiting for a person',
		'customer.header.online': 'Online',
		'customer.header.away': 'Away for the moment',
		'customer.header.closed': 'Chat closed',
		'customer.queue.position': 'You are number {n} in the queue',
		'customer.queue.next': 'You are next',
		'customer.queue.unknown': 'You are in the queue',
		'customer.queue.hint': 'You can keep writing, it will be seen.',
		'customer.closed.title': 'This chat is closed',
		'customer.closed.hint': 'Thank you for writing to us. Is there anything else?',
		'customer.again': 'Start again',
		'customer.unknownSite': 'There is no chat at this address. Check the link that brought you here.',
		'customer.unavailable': 'The chat cannot be reached. Trying again.',
		'customer.opening': 'Opening the chat…',

		'login.title': 'Log in to Desk',
		'login.user': 'Login',
		'login.password': 'Password',
		'login.submit': 'Log in',
		'login.busy': 'Logging in…',
		'login.empty': 'Enter your login and your password.',
		'login.wrong': 'Login or password is wrong.',
		'login.limited': 'Too many attempts. Try again in {n} s.',
		'login.unreachable': 'The server cannot be reached. Try again.',
		'login.server': 'The server could not log you in. Try again in a moment.',
		'login.ended': 'Your session has ended. Log in again.',
		'login.out': 'You are logged out.',

		'console.title': 'Agent console',
		'console.list': 'Chats',
		'console.mine': 'Mine',
		'console.queue': 'Queue',
		'console.mine.empty': 'No open chats. Take one from the queue.',
		'console.queue.empty': 'Nobody is waiting.',
		'console.queue.more': 'and {n} more',
		'console.preview.none': 'No messages yet',
		'console.preview.you': 'You: {text}',
		'console.preview.bot': 'Assistant: {text}',
		'console.unread': '{n} unread',
		'console.waiting': 'Waiting for {time}',
		'console.row.taken': 'Taken by {name}',
		'console.row.yours': 'Yours now',
		'console.row.gone': 'Closed',
		'console.pick.title': 'Choose a chat',
		'console.pick.hint': 'Press J and K to move, Enter to open, ? for all keys.',
		'console.take': 'Take this chat',
		'console.take.hint': 'You are reading a waiting chat. Take it to answer.',
		'console.take.busy': 'Taking…',
		'console.take.lost': '{name} was faster and has this chat now.',
		'console.take.gone': 'This chat is no longer waiting.',
		'console.take.full': 'You have as many chats as you may hold. Close one first.',
		'console.take.failed': 'The chat could not be taken. Try again.',
		'console.with.other': '{name} has this chat.',
		'console.with.bot': 'The assistant is answering.',
		'console.close': 'Close chat',
		'console.close.title': 'Close without an answer?',
		'console.close.body': 'The last message is from the customer.',
		'console.close.failed': 'The chat could not be closed. Try again.',
		'console.closed': 'This chat is closed.',
		'console.next': 'Next chat',
		'console.logout': 'Log out',
		'console.logout.title': 'Log out with unsent messages?',
		'console.logout.body': 'Messages that are not sent yet and drafts are deleted from this browser.',
		'console.logout.failed': 'You could not be logged out: the server cannot be reached. Try again.',
		'console.help': 'Keyboard',
		'console.details': 'Customer',
		'console.back': 'Back to the list',
		'console.quality.good': 'Connected · {n} ms',
		'console.quality.fair': 'Slow · {n} ms',
		'console.quality.poor': 'Very slow · {n} ms',
		'console.quality.measuring': 'Connected',
		'console.quality.down': 'Not connected',
		'console.state.bot': 'With the assistant',
		'console.state.queued': 'Waiting',
		'console.state.mine': 'With you',
		'console.state.assigned': 'With {name}',
		'console.state.closed': 'Closed',
		'console.draft': 'Draft: {text}',
		'console.announce.queued.one': '1 customer is waiting',
		'console.announce.queued.other': '{n} customers are waiting',

		'card.label': 'Customer',
		'card.presence': 'On the page',
		'card.presence.yes': 'Yes',
		'card.presence.no': 'No',
		'card.state': 'State',
		'card.opened': 'Started',
		'card.queued': 'Asked for a person',
		'card.messages': 'Messages',
		'card.id': 'Chat number',

		'keys.move': 'Next and previous chat',
		'keys.open': 'Open the chat, or take it when it waits',
		'keys.send': 'Send the message',
		'keys.break': 'New line',
		'keys.close': 'Close the chat',
		'keys.leave': 'Leave the message box',
		'keys.help': 'This list',
	},
	'zh-CN': {
		'app.name': 'Desk',
		'landing.title': 'Desk',
		'landing.lead': '正在这台机器上运行的客服聊天服务器。',
		'landing.customer': '客户页面',
		'landing.customerHint': '以访客身份发消息。先由助手回答，也可以请求人工客服。',
		'landing.console': '客服工作台',
		'landing.consoleHint': '使用服务器首次启动时打印的账号登录。',
		'landing.tip': '同时打开两个页面，就能看到对话的两端。',

		'language': '语言',
		'close': '关闭',
		'cancel': '取消',
		'notice.storage': '浏览器禁止了存储。关闭页面后，未发送的消息会丢失。',

		'banner.offline': '网络已断开。消息已保留，稍后发送。',
		'banner.draining': '服务正在重启。消息已保留。',
		'banner.reconnecting': '连接已断开。消息已保留。',
		'banner.connecting': '正在连接…',
		'banner.slow': '当前连接较慢。',
		'banner.stopped': '服务器结束了本次会话。请刷新页面后继续。',
		'banner.blocked': '您无法使用此聊天。',
		'banner.sessions': '此聊天在太多地方打开。请关闭一个后刷新。',
		'banner.retryIn': '{n} 秒后重试。',
		'banner.trying': '正在重试…',
		'banner.tryNow': '立即重试',

		'composer.label': '消息',
		'composer.placeholder': '输入消息',
		'composer.send': '发送',
		'composer.count': '{n} / {max}',
		'composer.over': '超出 {n} 个字符。',

		'state.pending': '等待发送',
		'state.accepted': '已发送',
		'state.failed': '未发送',
		'failed.not_sent': '未发送。',
		'failed.too_large': '未发送：内容过长。',
		'failed.closed': '未发送：对话已结束。',
		'failed.forbidden': '未发送：该对话由其他客服接待。',
		'failed.conflict': '未发送：请先接入对话。',
		'failed.blocked': '未发送：您无法使用此聊天。',
		'failed.other': '未发送：服务器拒绝了该消息。',
		'retry': '重试',
		'discard': '删除',

		'messages.label': '消息记录',
		'messages.today': '今天',
		'messages.yesterday': '昨天',
		'messages.new.other': '{n} 条新消息',
		'messages.bottom': '回到最新消息',
		'messages.loading': '正在加载对话…',
		'messages.you': '您',
		'typing.one': '{name} 正在输入…',

		'who.bot': '智能助手',
		'who.customer': '客户',
		'who.agent': '客服',

		'event.opened': '对话开始',
		'event.handoff.me': '您请求了人工客服',
		'event.handoff.customer': '客户请求人工客服',
		'event.handoff.other': '已转接人工客服',
		'event.returned': '已回到排队队列',
		'event.reopened': '对话已重新打开',
		'event.taken.other': '{name} 加入了对话',
		'event.taken.me': '您加入了对话',
		'event.closed.me': '您结束了对话',
		'event.closed.customer': '客户结束了对话',
		'event.closed.agent': '{name} 结束了对话',
		'event.closed.other': '对话已结束',

		'customer.title': '在线客服',
		'customer.menu': '菜单',
		'customer.human': '转人工客服',
		'customer.human.sent': '正在请求人工客服…',
		'customer.end': '结束对话',
		'customer.end.title': '结束此次对话？',
		'customer.end.body': '您随时可以开始新的对话。',
		'customer.end.failed': '未能结束对话。请在连接恢复后重试。',
		'customer.header.connecting': '正在连接…',
		'customer.header.bot': '自动应答助手',
		'customer.header.waiting': '等待人工客服',
		'customer.header.online': '在线',
		'customer.header.away': '暂时离开',
		'customer.header.closed': '对话已结束',
		'customer.queue.position': '您排在第 {n} 位',
		'customer.queue.next': '下一位就是您',
		'customer.queue.unknown': '您正在排队',
		'customer.queue.hint': '您可以继续留言，客服会看到。',
		'customer.closed.title': '此次对话已结束',
		'customer.closed.hint': '感谢您的来信。还有其他问题吗？',
		'customer.again': '重新开始',
		'customer.unknownSite': '此地址没有聊天服务。请检查您打开的链接。',
		'customer.unavailable': '暂时无法连接客服，正在重试。',
		'customer.opening': '正在打开对话…',

		'login.title': '登录 Desk',
		'login.user': '账号',
		'login.password': '密码',
		'login.submit': '登录',
		'login.busy': '正在登录…',
		'login.empty': '请输入账号和密码。',
		'login.wrong': '账号或密码错误。',
		'login.limited': '尝试次数过多。请在 {n} 秒后重试。',
		'login.unreachable': '无法连接服务器，请重试。',
		'login.server': '服务器暂时无法登录，请稍后重试。',
		'login.ended': '会话已结束，请重新登录。',
		'login.out': '您已退出登录。',

		'console.title': '客服工作台',
		'console.list': '对话列表',
		'console.mine': '我的对话',
		'console.queue': '排队中',
		'console.mine.empty': '没有进行中的对话。请从队列接入。',
		'console.queue.empty': '没有人在排队。',
		'console.queue.more': '另有 {n} 个',
		'console.preview.none': '暂无消息',
		'console.preview.you': '我：{text}',
		'console.preview.bot': '助手：{text}',
		'console.unread': '{n} 条未读',
		'console.waiting': '已等待 {time}',
		'console.row.taken': '{name} 已接入',
		'console.row.yours': '已由您接入',
		'console.row.gone': '已结束',
		'console.pick.title': '请选择对话',
		'console.pick.hint': '按 J、K 移动，Enter 打开，? 查看全部快捷键。',
		'console.take': '接入对话',
		'console.take.hint': '您正在查看排队中的对话。接入后即可回复。',
		'console.take.busy': '正在接入…',
		'console.take.lost': '{name} 已先一步接入此对话。',
		'console.take.gone': '此对话已不在排队。',
		'console.take.full': '您的对话数已达上限。请先结束一个。',
		'console.take.failed': '未能接入对话，请重试。',
		'console.with.other': '此对话由 {name} 接待。',
		'console.with.bot': '智能助手正在应答。',
		'console.close': '结束对话',
		'console.close.title': '不回复就结束吗？',
		'console.close.body': '最后一条消息来自客户。',
		'console.close.failed': '未能结束对话，请重试。',
		'console.closed': '此对话已结束。',
		'console.next': '下一个对话',
		'console.logout': '退出登录',
		'console.logout.title': '仍有未发送的消息，确定退出？',
		'console.logout.body': '未发送的消息和草稿将从此浏览器删除。',
		'console.logout.failed': '无法退出：连接不上服务器，请重试。',
		'console.help': '快捷键',
		'console.details': '客户信息',
		'console.back': '返回列表',
		'console.quality.good': '已连接 · {n} 毫秒',
		'console.quality.fair': '较慢 · {n} 毫秒',
		'console.quality.poor': '很慢 · {n} 毫秒',
		'console.quality.measuring': '已连接',
		'console.quality.down': '未连接',
		'console.state.bot': '助手应答中',
		'console.state.queued': '排队中',
		'console.state.mine': '由您接待',
		'console.state.assigned': '由 {name} 接待',
		'console.state.closed': '已结束',
		'console.draft': '草稿：{text}',
		'console.announce.queued.other': '{n} 位客户在排队',

		'card.label': '客户信息',
		'card.presence': '在页面上',
		'card.presence.yes': '是',
		'card.presence.no': '否',
		'card.state': '状态',
		'card.opened': '开始时间',
		'card.queued': '请求人工时间',
		'card.messages': '消息数',
		'card.id': '对话编号',

		'keys.move': '下一个、上一个对话',
		'keys.open': '打开对话；排队中的对话则接入',
		'keys.send': '发送消息',
		'keys.break': '换行',
		'keys.close': '结束对话',
		'keys.leave': '离开输入框',
		'keys.help': '此列表',
	},
};

const storage = new SafeStorage();
const state = { locale: choose() };
const formats = new Map(); // making a format costs far more than using it
const listeners = new Set();

function choose() {
	const kept = storage.get(storageKey);
	if (kept in locales) return kept;
	const wanted = globalThis.navigator?.languages ?? [globalThis.navigator?.language ?? 'en'];
	for (const tag of wanted) {
		if (/^zh\b/i.test(tag)) return 'zh-CN';
		if (/^en\b/i.test(tag)) return 'en';
	}
	return 'en';
}

/** The language in use. */
export function locale() {
	return state.locale;
}

/** Changes the language, keeps the choice and tells everybody who listens. */
export function setLocale(tag) {
	if (!(tag in locales) || tag === state.locale) return;
	state.locale = tag;
	storage.set(storageKey, tag);
	for (const f of listeners) f();
}

/** Calls f after every change of language. */
export function onLocale(f) {
	listeners.add(f);
}

function format(Kind, options) {
	const key = `${state.locale} ${Kind.name} ${JSON.stringify(options)}`;
	if (!formats.has(key)) formats.set(key, new Kind(state.locale, options));
	return formats.get(key);
}

/** The text of key with {name} replaced from vars. */
export function t(key, vars = {}) {
	const text = texts[state.locale][key] ?? texts.en[key];
	if (text === undefined) throw new Error(`i18n: no text for ${key}`);
	return text.replace(/\{(\w+)\}/g, (_, name) => String(vars[name] ?? ''));
}

/** The text of key.one or key.other for n. */
export function plural(key, n) {
	const form = format(Intl.PluralRules).select(n);
	const full = `${key}.${form}`;
	return t(full in texts[state.locale] ? full : `${key}.other`, { n: number(n) });
}

export function number(n) {
	return format(Intl.NumberFormat).format(n);
}

/** Hours and minutes. */
export function clock(ms) {
	return format(Intl.DateTimeFormat, { timeStyle: 'short' }).format(ms);
}

/** Date and time in full, for titles. */
export function fullTime(ms) {
	return format(Intl.DateTimeFormat, { dateStyle: 'medium', timeStyle: 'short' }).format(ms);
}

/** The time alone for today, else date and time. */
export function moment(ms, now = Date.now()) {
	return new Date(ms).toDateString() === new Date(now).toDateString() ? clock(ms) : fullTime(ms);
}

/** The day of a separator: today, yesterday or the date. */
export function day(ms, now = Date.now()) {
	const start = (x) => new Date(x).setHours(0, 0, 0, 0);
	const ago = Math.round((start(now) - start(ms)) / 86_400_000);
	if (ago === 0) return t('messages.today');
	if (ago === 1) return t('messages.yesterday');
	const sameYear = new Date(ms).getFullYear() === new Date(now).getFullYear();
	return format(Intl.DateTimeFormat, { weekday: 'long', month: 'long', day: 'numeric', year: sameYear ? undefined : 'numeric' }).format(ms);
}

/** A waiting time in a few characters: 12 s, 3 min, 2 h. */
export function waited(ms) {
	const s = Math.max(0, Math.floor(ms / 1000));
	const unit = (value, name) => format(Intl.NumberFormat, { style: 'unit', unit: name, unitDisplay: 'short' }).format(value);
	if (s < 60) return unit(s, 'second');
	if (s < 3600) return unit(Math.floor(s / 60), 'minute');
	return unit(Math.floor(s / 3600), 'hour');
}

/**
 * Fills the static texts of a page: data-t (text), data-t-label (aria-label),
 * data-t-placeholder, data-t-title; and the language of the document.
 */
export function translate(root = document) {
	document.documentElement.lang = state.locale;
	const apply = (attr, set) => {
		for (const node of root.querySelectorAll(`[${attr}]`)) set(node, t(node.getAttribute(attr)));
	};
	apply('data-t', (node, text) => { node.textContent = text; });
	apply('data-t-label', (node, text) => node.setAttribute('aria-label', text));
	apply('data-t-placeholder', (node, text) => node.setAttribute('placeholder', text));
	apply('data-t-title', (node, text) => node.setAttribute('title', text));
}
