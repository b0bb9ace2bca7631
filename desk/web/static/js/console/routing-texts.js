// What the console says about routing, in both languages.

import { addTexts } from '../core/i18n.js';

addTexts({
	'en': {
		'priority.label': 'Priority',
		'priority.urgent': 'Urgent',
		'priority.high': 'High',
		'priority.normal': 'Normal',
		'priority.low': 'Low',
		'priority.mark': 'Priority: {priority}',
		'priority.failed': 'The priority could not be set. Try again.',
		'status.finishing': 'Finishing up',
		'chats.none.away': 'You are away: waiting customers are not given to you.',
		'chats.none.idle': 'You are away because nothing has happened here for a while: waiting customers are not given to you.',
		'chats.none.finishing': 'You are finishing up: you get no new chats, and are offline after the last one.',
		'chats.back': 'I am back',
		'routing.event.away': '{name} was away: the chat is waiting again, at its old place.',
		'routing.mark.skill': 'Needs an agent with: {skill}',
		'routing.note.priority': '{name} set the priority: {priority}',
		'routing.note.relaxed': 'Nobody was free in time with: {what}. Any agent of the group may get this chat now.',
		'routing.note.relaxed_nobody': 'Nobody of the group has: {what}. Any agent of the group may get this chat now.',
	},
	'zh-CN': {
		'priority.label': '优先级',
		'priority.urgent': '紧急',
		'priority.high': '高',
		'priority.normal': '普通',
		'priority.low': '低',
		'priority.mark': '优先级：{priority}',
		'priority.failed': '无法设置优先级，请重试。',
		'status.finishing': '收尾中',
		'chats.none.away': '您已离开：等待中的客户不会分配给您。',
		'chats.none.idle': '由于一段时间没有操作，您已被设为离开：等待中的客户不会分配给您。',
		'chats.none.finishing': '您正在收尾：不会收到新对话，最后一个对话结束后将离线。',
		'chats.back': '我回来了',
		'routing.event.away': '{name} 已离开：对话回到队列的原位置等待。',
		'routing.mark.skill': '需要具备此技能的客服：{skill}',
		'routing.note.priority': '{name} 将优先级设为：{priority}',
		'routing.note.relaxed': '具备以下条件的客服未能及时有空：{what}。现在组内任何客服都可接待。',
		'routing.note.relaxed_nobody': '组内没有客服具备：{what}。现在组内任何客服都可接待。',
	},
});
